#include "tests/support/process/folder.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/inputs/door.h"
#include "tests/system/attack/inputs/mutation.h"
#include "tests/system/attack/talk.h"
#include "tests/system/attack/target.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

/* Every request of the list, some with all their fields; %s: the first user's home. */
static const char *const frames[] = {
    "{\"v\":1,\"id\":1,\"cmd\":\"hello\"}",
    "{\"v\":1,\"id\":2,\"cmd\":\"submit\",\"folder\":\"%s\",\"config\":\"dataset.generator = "
    "\\\"karate\\\"\\ntrain.epochs = "
    "2\\n\",\"set\":"
    "[\"partition.cache=off\"],\"jobs\":[[\"train.epochs=1\"],[\"train.epochs=2\"]],\"name\":\"x\",\"group\":\"g\","
    "\"tags\":["
    "\"a\",\"b\"],"
    "\"priority\":-5,\"time_limit_s\":10.5,\"max_restarts\":3}",
    "{\"v\":1,\"id\":3,\"cmd\":\"status\",\"group\":\"g\",\"tag\":\"a\",\"active\":true,\"before\":100,\"limit\":10}",
    "{\"v\":1,\"id\":4,\"cmd\":\"show\",\"job\":1}",
    "{\"v\":1,\"id\":5,\"cmd\":\"logs\",\"job\":1,\"rank\":0,\"tail\":10}",
    "{\"v\":1,\"id\":6,\"cmd\":\"metrics\",\"job\":\"x\",\"tail\":10}",
    "{\"v\":1,\"id\":7,\"cmd\":\"cancel\",\"group\":\"g\"}",
    "{\"v\":1,\"id\":8,\"cmd\":\"resume\",\"job\":1}",
    "{\"v\":1,\"id\":9,\"cmd\":\"scale\",\"job\":1,\"workers\":2}",
    "{\"v\":1,\"id\":10,\"cmd\":\"backup\",\"path\":\"/tmp/x\"}",
    "{\"v\":1,\"id\":11,\"cmd\":\"audit\",\"before\":10,\"limit\":10}",
    "{\"v\":1,\"id\":12,\"cmd\":\"users\"}",
    "{\"v\":1,\"id\":13,\"cmd\":\"auth\",\"user\":\"ada\",\"nonce\":\"00\",\"proof\":\"00\"}"};

/* Each line that is not empty gets an answer with an exit code, and the connection then ends. */
void door_frame(void)
{
    static char bytes[MUTATION_BYTES], line[1 << 20];
    char good[1024];
    snprintf(good, sizeof good, frames[campaign_draw(N_OF(frames))], folder_path(user_home(USER_FIRST)));
    size_t n = mutation_make(good, strlen(good), bytes);
    int file = talk_open(USER_FIRST);
    HOLDS(file >= 0, "the daemon takes no connection");
    talk_send(file, bytes, n);
    talk_send(file, "\n", 1);
    shutdown(file, SHUT_WR);
    while (talk_line(file, line, sizeof line)) {
        json_t *answer = json_loads(line, 0, NULL);
        json_int_t code = json_integer_value(json_object_get(answer, "exit_code"));
        HOLDS(answer != NULL, "an answer is no JSON: %.300s", line);
        HOLDS(code != 70 && code <= 78, "exit code %lld: %.300s after %.300s", (long long)code, line, bytes);
        HOLDS(!json_is_false(json_object_get(answer, "ok")) || talk_error(answer)[0] != '\0', "no reason: %.300s",
              line);
        json_decref(answer);
    }
    close(file);
    HOLDS(!target_is_dead(), "the daemon has died after %.300s", bytes);
}

void door_http(void)
{
    static const char good[] =
        "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9750\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    static char bytes[MUTATION_BYTES], answer[1 << 16];
    size_t n = mutation_make(good, sizeof good - 1, bytes);
    int file = talk_open_http();
    HOLDS(file >= 0, "the port of metrics takes no connection");
    talk_send(file, bytes, n);
    shutdown(file, SHUT_WR);
    if (talk_line(file, answer, sizeof answer) && n > 0) {
        HOLDS(strncmp(answer, "HTTP/1.", 7) == 0 && strstr(answer, " 500 ") == NULL, "%.300s after %.300s", answer,
              bytes);
    }
    close(file);
    HOLDS(!target_is_dead(), "the daemon has died after %.300s", bytes);
}
