#include "protocol/transport/wakeup.h"

#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_on;

void wakeup_guard(bool on)
{
    is_on = on;
}

static bool is_datagram(int file)
{
    int type = 0;
    socklen_t n = sizeof type;
    return getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_DGRAM;
}

/* 0, or -1 with errno. */
static int guard(int file)
{
    /* Keep as many bytes of a datagram as it has; the kernel drops one of which none are kept. */
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_RET | BPF_A, 0)};
    const struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    return setsockopt(file, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

/* Replaces the C library's bind, for this process and its libraries. */
int bind(int file, __CONST_SOCKADDR_ARG name, socklen_t n)
{
    bool is_drawn = n == sizeof(sa_family_t) && name.__sockaddr__->sa_family == AF_UNIX;
    if (is_on && is_drawn && is_datagram(file) && guard(file) != 0) {
        return -1;
    }
    return (int)syscall(SYS_bind, file, name.__sockaddr__, n);
}
