#include "tests/support/daemon/server_case.h"

#include "tests/support/daemon/client.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

struct server *server;

void server_case_begin(void)
{
    folder_make();
    cr_assert_eq(uv_loop_init(&loop), 0);
}

void server_case_close(void)
{
    if (server != NULL) {
        server_close(server);
    }
    server = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
}

void server_case_end(void)
{
    server_case_close();
    cr_assert_eq(uv_loop_close(&loop), 0);
    folder_remove();
}

struct server_options server_case_options(const char *address, int32_t n_most)
{
    return (struct server_options){.address = address,
                                   .n_most_connection = n_most,
                                   .n_most_of_uid = n_most,
                                   .n_most_frame = 65536,
                                   .n_most_unread = 1u << 20,
                                   .hello_s = 100,
                                   .idle_s = 100};
}

void server_case_open(const struct server_options *options, struct server_handler handler)
{
    expect_done(server_open(&loop, options, &handler, &server));
}
