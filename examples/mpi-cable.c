/* A cable between simulated hosts, with a latency and a rate. examples/mpi-two-hosts.sh builds and starts it.
 *
 * usage: mpi-cable LATENCY_US BYTES_PER_SECOND NAMESPACE NAMESPACE...
 *
 * Each network namespace gets a tap device with the name clef-cable and the address 02:00:00:00:00:NN, where
 * NN counts from 01. A frame waits until those before it have left its host, which takes their bytes by the
 * rate (0: no time). Then it arrives after the latency, on the device that has the frame's destination. Linux
 * only; needs root. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MAX_HOSTS = 64, HEAD = 10, MAX_FRAME = 70000, MAX_QUEUE = 64 << 20 };

/* HEAD bytes say how the kernel may cut the frame, which has up to 64 KiB. They pass as they are. */
typedef struct frame {
    struct frame *next;
    double due; /* in seconds */
    size_t n;
    unsigned char data[];
} frame;

typedef struct host {
    int fd;
    double free_at; /* when the frames that it has sent so far have left */
    frame *first, *last;
    size_t n_bytes; /* of them */
} host;

static host hosts[MAX_HOSTS];
static int n_hosts;
static double latency, rate;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
    fprintf(stderr, "mpi-cable: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Makes the device of host i in its namespace, in which this process then stays. */
static void open_host(int i, const char *space)
{
    char path[256];
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    const unsigned char address[6] = {2, 0, 0, 0, 0, (unsigned char)(i + 1)};
    snprintf(path, sizeof path, "/run/netns/%s", space);
    const int place = open(path, O_RDONLY | O_CLOEXEC);
    if (place < 0 || setns(place, CLONE_NEWNET))
        fail(path);
    close(place);
    hosts[i].fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof request.ifr_name, "clef-cable");
    if (hosts[i].fd < 0 || ioctl(hosts[i].fd, TUNSETIFF, &request))
        fail("/dev/net/tun");
    if (ioctl(hosts[i].fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4))
        fail("TUNSETOFFLOAD");
    request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    memcpy(request.ifr_hwaddr.sa_data, address, sizeof address);
    if (ioctl(hosts[i].fd, SIOCSIFHWADDR, &request))
        fail("SIOCSIFHWADDR");
}

/* Takes a frame of the host, if it has one. */
static int take(host *h)
{
    static unsigned char data[MAX_FRAME];
    const ssize_t n = read(h->fd, data, sizeof data);
    if (n <= HEAD + 14)
        return 0;
    frame *f = h->n_bytes < MAX_QUEUE ? malloc(sizeof *f + (size_t)n) : NULL;
    if (!f)
        return 1; /* it is lost, as on a network that is too busy */
    const double begin = now();
    h->free_at = (h->free_at > begin ? h->free_at : begin) + (rate > 0 ? (double)n / rate : 0);
    *f = (frame){.due = h->free_at + latency, .n = (size_t)n};
    memcpy(f->data, data, (size_t)n);
    *(h->first ? &h->last->next : &h->first) = f;
    h->last = f;
    h->n_bytes += f->n;
    return 1;
}

/* Hands over the host's first frame, to all others if it is for all. A device that is down does not take it.
 */
static void hand_over(host *h)
{
    frame *f = h->first;
    const unsigned char *to = f->data + HEAD;
    for (int i = 0; i < n_hosts; i++)
        if (&hosts[i] != h && (to[0] & 1 || to[5] == i + 1))
            (void)!write(hosts[i].fd, f->data, f->n);
    h->first = f->next;
    h->n_bytes -= f->n;
    free(f);
}

/* Hands over what is due. Returns the seconds until the next frame is; below 0: there is none. */
static double deliver(void)
{
    double wait = -1;
    for (int i = 0; i < n_hosts; i++) {
        while (hosts[i].first && hosts[i].first->due <= now())
            hand_over(&hosts[i]);
        const double left = hosts[i].first ? hosts[i].first->due - now() : -1;
        if (hosts[i].first && (wait < 0 || left < wait))
            wait = left > 0 ? left : 0;
    }
    return wait;
}

int main(int argc, char **argv)
{
    struct pollfd polls[MAX_HOSTS];
    if (argc < 5 || argc - 3 > MAX_HOSTS)
        return fprintf(stderr, "usage: mpi-cable LATENCY_US BYTES_PER_SECOND NAMESPACE NAMESPACE...\n"), 2;
    latency = strtod(argv[1], NULL) * 1e-6;
    rate = strtod(argv[2], NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1);
    /* Frames have to be on time while the hosts' programs keep all cores busy. */
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
    for (n_hosts = 0; n_hosts < argc - 3; n_hosts++) {
        open_host(n_hosts, argv[3 + n_hosts]);
        polls[n_hosts] = (struct pollfd){.fd = hosts[n_hosts].fd, .events = POLLIN};
    }
    for (;;) {
        const double wait = deliver();
        const struct timespec t = {.tv_sec = (time_t)wait,
                                   .tv_nsec = (long)((wait - (double)(time_t)wait) * 1e9)};
        if (ppoll(polls, (nfds_t)n_hosts, wait < 0 ? NULL : &t, NULL) < 0 && errno != EINTR)
            fail("ppoll");
        for (int i = 0; i < n_hosts; i++)
            while (take(&hosts[i]))
                ;
    }
}
