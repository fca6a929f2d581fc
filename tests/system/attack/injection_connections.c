#include "tests/system/attack/campaign.h"
#include "tests/system/attack/injection.h"
#include "tests/system/attack/mutation.h"
#include "tests/system/attack/talk.h"
#include "tests/system/attack/target.h"
#include "tests/system/attack/work.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

static const char *const frames[] = {
    "{\"v\":1,\"id\":1,\"cmd\":\"hello\"}\n",
    "{\"v\":1,\"id\":2,\"cmd\":\"status\",\"limit\":3}\n",
    "{\"v\":1,\"id\":3,\"cmd\":\"show\",\"job\":1}\n",
    "{\"v\":1,\"id\":4,\"cmd\":\"logs\",\"job\":1,\"tail\":3}\n",
    "{\"v\":1,\"id\":5,\"cmd\":\"submit\",\"folder\":\"relative\",\"config\":\"\",\"set\":[\"a.b=1\",\"c=2\"],"
    "\"jobs\":[[\"x=1\"],[]]}\n",
    "{\"v\":1,\"id\":6,\"cmd\":\"auth\",\"user\":\"ada\",\"nonce\":\"00\",\"proof\":\"00\"}\n"};

void injection_half_frames(enum user who, enum user other)
{
    (void)other;
    for (uint32_t n = 1 + campaign_draw(20); n > 0; n--) {
        const char *frame = frames[campaign_draw(N_OF(frames))];
        int file = talk_open(who);
        if (file >= 0) {
            talk_send(file, frame, 1 + campaign_draw((uint32_t)strlen(frame) - 1));
        }
        if (campaign_draw(4) == 0) {
            close(file);
        } else {
            talk_keep(who, file);
        }
    }
}

/* Every line is answered, or the connection ends, with a reason. */
void injection_malformed_frames(enum user who, enum user other)
{
    (void)other;
    static char bytes[MUTATION_BYTES], line[1 << 16];
    for (uint32_t n = 1 + campaign_draw(10); n > 0; n--) {
        const char *frame = frames[campaign_draw(N_OF(frames))];
        size_t n_byte = mutation_make(frame, strlen(frame) - 1, bytes);
        int file = talk_open(who);
        if (file < 0) {
            continue;
        }
        talk_send(file, bytes, n_byte);
        talk_send(file, "\n", 1);
        bool is_empty = strspn(bytes, "\r\n") == n_byte;
        if (!is_empty && memchr(bytes, '\n', n_byte) == NULL && talk_line(file, line, sizeof line)) {
            json_t *answer = json_loads(line, 0, NULL);
            HOLDS(answer != NULL, "an answer is no JSON: %.300s", line);
            HOLDS(json_integer_value(json_object_get(answer, "exit_code")) != 70,
                  "internal error after %.300s: %.300s", bytes, line);
            json_decref(answer);
        }
        close(file);
    }
}

void injection_long_frames(enum user who, enum user other)
{
    (void)other;
    static char bytes[3 << 20];
    memset(bytes, "x\"[{ 9"[campaign_draw(6)], sizeof bytes);
    memcpy(bytes, "{\"v\":1,\"id\":1,\"cmd\":\"", campaign_draw(21));
    int file = talk_open(who);
    if (file >= 0) {
        talk_send(file, bytes, (1u << 20) + campaign_draw(2u << 20));
    }
    talk_keep(who, file);
}

void injection_idle_connections(enum user who, enum user other)
{
    (void)other;
    for (uint32_t n = 100 + campaign_draw(300); n > 0; n--) {
        talk_keep(who, talk_open(who));
    }
}

void injection_unread_streams(enum user who, enum user other)
{
    (void)other;
    static const char *const commands[] = {"logs", "watch", "metrics", "status", "show"};
    const struct work *work = work_draw(who, false);
    for (uint32_t n = 1 + campaign_draw(8); n > 0 && work != NULL; n--) {
        int file = talk_open(who);
        for (uint32_t i = 0; file >= 0 && i < 20; i++) {
            char request[256];
            const char *command = commands[campaign_draw(N_OF(commands))];
            int n_byte = snprintf(request, sizeof request, "{\"v\":1,\"id\":%u,\"cmd\":\"%s\",\"job\":%lld%s}\n", i,
                                  command, (long long)work->id,
                                  strcmp(command, "status") == 0 || strcmp(command, "show") == 0 ? ""
                                  : strcmp(command, "watch") == 0                                ? ",\"tail\":100000"
                                                                  : ",\"follow\":true");
            talk_send(file, request, (size_t)n_byte);
        }
        talk_keep(who, file);
    }
}

void injection_http_flood(enum user who, enum user other)
{
    (void)other;
    for (uint32_t n = 50 + campaign_draw(200); n > 0; n--) {
        int file = talk_open_http();
        if (file >= 0 && campaign_draw(2) == 0) {
            talk_send(file, "GET /metrics HTTP/1.1\r\n", 1 + campaign_draw(22));
        }
        if (campaign_draw(20) == 0) {
            talk_keep(who, file);
        } else {
            close(file);
        }
    }
}

void injection_http_nonsense(enum user who, enum user other)
{
    (void)who;
    (void)other;
    static const char request[] =
        "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nRange: bytes=0-1\r\n\r\nabc";
    static char bytes[MUTATION_BYTES];
    for (uint32_t n = 1 + campaign_draw(10); n > 0; n--) {
        size_t n_byte = mutation_make(request, sizeof request - 1, bytes);
        int file = talk_open_http();
        if (file >= 0) {
            talk_send(file, bytes, n_byte);
            close(file);
        }
    }
}
