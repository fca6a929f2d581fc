#include "trainerd/coordinator/results/file_share.h"

#include "protocol/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static enum status copy_fail(const char *from, const char *to, int error)
{
    return status_fail(STATUS_IO, "cannot copy '%s' to '%s': %s", from, to, strerror(error));
}

enum status file_copy(const char *from, const char *to)
{
    char bytes[1 << 16];
    int in, out;
    ssize_t n;
    enum status status = file_open(from, &in);
    if (status != STATUS_OK) {
        return status;
    }
    unlink(to); /* it may be another name of `from` */
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int error = out < 0 ? errno : 0;
    while (error == 0 && (n = read(in, bytes, sizeof bytes)) != 0) {
        error = n > 0 ? file_write(out, bytes, (size_t)n) : errno == EINTR ? 0 : errno;
    }
    error = error == 0 && fsync(out) != 0 ? errno : error;
    if (out >= 0 && close(out) != 0 && error == 0) {
        error = errno;
    }
    close(in);
    return error == 0 ? STATUS_OK : copy_fail(from, to, error);
}

enum status file_share(const char *from, const char *to)
{
    unlink(to);
    return link(from, to) == 0 ? STATUS_OK : file_copy(from, to);
}
