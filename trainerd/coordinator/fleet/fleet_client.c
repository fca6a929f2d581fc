/* Connections of the control socket: frames out, and their end. */
#include "trainerd/coordinator/fleet/fleet_state.h"

#include <stdlib.h>

struct frame_write {
    uv_write_t request;
    void *frame;
};

static void frame_written(uv_write_t *request, int error)
{
    struct frame_write *write = (struct frame_write *)request;
    (void)error; /* the reader sees a lost connection */
    free(write->frame);
    free(write);
}

void fleet_client_send(struct fleet_client *client, void *frame, size_t n_bytes)
{
    struct frame_write *write = memory_alloc(1, sizeof *write);
    frame = memory_grow(frame, n_bytes + SEAL_TAG_BYTES);
    n_bytes = control_seal_frame(&client->seal, frame, n_bytes);
    write->frame = frame;
    uv_buf_t buffer = uv_buf_init(frame, (unsigned)n_bytes);
    if (uv_write(&write->request, (uv_stream_t *)&client->tcp, &buffer, 1, frame_written) != 0) {
        free(frame);
        free(write);
    }
}

static void client_closed(uv_handle_t *handle)
{
    struct fleet_client *client = handle->data;
    control_decoder_release(&client->decoder);
    control_seal_release(&client->seal);
    free(client);
}

static void client_shut(uv_shutdown_t *request, int error)
{
    (void)error;
    uv_close((uv_handle_t *)request->handle, client_closed);
    free(request);
}

void fleet_client_close(struct fleet_client *client)
{
    struct fleet_client **at = &client->fleet->control.clients;
    while (*at != client) {
        at = &(*at)->next;
    }
    *at = client->next;
    if (client->worker != NULL) {
        client->worker->client = NULL;
    }
    /* The last frame (the reason) is to leave before the socket is closed. */
    uv_read_stop((uv_stream_t *)&client->tcp);
    uv_shutdown_t *request = memory_alloc(1, sizeof *request);
    if (uv_shutdown(request, (uv_stream_t *)&client->tcp, client_shut) != 0) {
        free(request);
        uv_close((uv_handle_t *)&client->tcp, client_closed);
    }
}

bool fleet_is_clientless(const struct fleet *fleet)
{
    return fleet->control.clients == NULL;
}
