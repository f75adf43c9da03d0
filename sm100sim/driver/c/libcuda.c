/* The library that stands where libcuda.so.1 stands under a program that `sm100sim run` started.
 *
 * It knows nothing of CUDA: every entry point sends its name and its argument words to the
 * simulator's process, and then does what that asks of this one (read memory, write memory, call a
 * function) until the return value arrives. Device memory is a file that both processes map.
 */
#define _GNU_SOURCE
#include "transport.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { NOT_INITIALIZED = 3, DEINITIALIZED = 4, NO_DEVICE = 100, UNKNOWN = 999 };

/* What the simulator asks for; the same numbers in wire.py. */
enum Request { RETURN, READ, WRITE, MOVE, FILL, STRING, CALL, RESOLVE, PRINT };

typedef struct {
  u64 kind, a, b, c, d;
} Message;

/* Sent by this side: a call begins, or an answer follows. */
enum { BEGIN = 1, ANSWER = 2 };

/* Where device memory lies, as both processes see it, and the memory that hosts may touch, too. */
typedef struct {
  u64 device, device_bytes, pinned, pinned_bytes;
} Regions;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static enum { FRESH, TRIED, LEFT } state;

static int connection = -1;
static int failure; /* what every call answers when there is no connection */
static Regions regions;
static char *view; /* device memory as this library reaches it; a program's own access to it faults */

static int transfer(int out, void *data, u64 count) {
  for (char *at = data; count;) {
    ssize_t moved = out ? send(connection, at, count, MSG_NOSIGNAL) : recv(connection, at, count, 0);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved <= 0)
      return 0;
    at += moved;
    count -= (u64)moved;
  }
  return 1;
}

static int put(const void *data, u64 count) {
  return transfer(1, (void *)data, count);
}

static int get(void *data, u64 count) {
  return transfer(0, data, count);
}

/* ---- the connection ------------------------------------------------------------------------ */

/* The regions, and with them the file that holds them; -1 when they do not come. */
static int receive_regions(void) {
  char space[CMSG_SPACE(sizeof(int))];
  struct iovec part = {&regions, sizeof regions};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  if (recvmsg(connection, &message, MSG_WAITALL) != (ssize_t)sizeof regions)
    return -1;
  struct cmsghdr *control = CMSG_FIRSTHDR(&message);
  int file = -1;
  if (control && control->cmsg_type == SCM_RIGHTS)
    memcpy(&file, CMSG_DATA(control), sizeof file);
  return file;
}

static void *map(u64 at, u64 bytes, int access, int flags, int file, u64 offset) {
  if (at)
    flags |= MAP_FIXED_NOREPLACE;
  return mmap((void *)at, bytes, access, flags | MAP_NORESERVE, file, (off_t)offset);
}

static void unmap(void *at, u64 bytes) {
  if (at != MAP_FAILED)
    munmap(at, bytes);
}

/* Maps both regions, or neither; device memory twice, once where a program's pointers lie, without access. */
static int map_regions(int file) {
  void *fence = map(regions.device, regions.device_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void *own = map(0, regions.device_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void *pinned = map(regions.pinned, regions.pinned_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                     regions.device_bytes);
  close(file);
  view = own;
  if ((u64)fence == regions.device && own != MAP_FAILED && (u64)pinned == regions.pinned)
    return 1;
  unmap(fence, regions.device_bytes);
  unmap(own, regions.device_bytes);
  unmap(pinned, regions.pinned_bytes);
  return 0;
}

static void give_up(int code, const char *why) {
  fprintf(stderr, "sm100sim: no virtual device: %s\n", why);
  failure = code;
  if (connection >= 0)
    close(connection);
  connection = -1;
}

/* The connection belongs to the parent; CUDA cannot be used after fork either. */
static void forget_after_fork(void) {
  if (connection >= 0) {
    close(connection);
    connection = -1;
    failure = NOT_INITIALIZED;
  }
}

/* Before a script in a process that goes on: its first call connects. */
EXPORT void sm100sim_begin(void) {
  state = FRESH;
  failure = 0;
}

/* After it: nothing is left that could be freed. */
EXPORT void sm100sim_leave(void) {
  if (connection >= 0) {
    close(connection);
    munmap((void *)regions.device, regions.device_bytes);
    munmap((void *)regions.pinned, regions.pinned_bytes);
    munmap(view, regions.device_bytes);
  }
  connection = -1;
  failure = DEINITIALIZED;
  state = LEFT;
}

static int frees(const char *name) {
  static const char *const words[] = {"Free", "Destroy", "Unload", "Release", "Unregister"};
  for (unsigned k = 0; k < sizeof words / sizeof *words; k++)
    if (strstr(name, words[k]))
      return 1;
  return 0;
}

enum { PLACES = 8 }; /* where memory is tried */

static void try_to_connect(void) {
  static int watched;
  if (!watched)
    pthread_atfork(NULL, NULL, forget_after_fork);
  watched = 1;
  state = TRIED;
  const char *path = getenv("SM100SIM_DRIVER");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!path || strlen(path) >= sizeof address.sun_path) {
    give_up(NO_DEVICE, "start the program with `python -m sm100sim run`");
    return;
  }
  strcpy(address.sun_path, path);
  /* The program may have memory where the device's would be: another connection is given other addresses. */
  for (int k = 0; k < PLACES; k++) {
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address)) {
      give_up(NO_DEVICE, "the simulator's process does not answer");
      return;
    }
    int file = receive_regions();
    if (file >= 0 && map_regions(file))
      return;
    close(connection);
    connection = -1;
  }
  give_up(NO_DEVICE, "its memory cannot be mapped here");
}

/* ---- what the simulator asks for ----------------------------------------------------------- */

static char *reach(u64 address) {
  u64 offset = address - regions.device;
  return offset < regions.device_bytes ? view + offset : (char *)address;
}

static void fill(char *to, u64 value, u64 width, u64 count) {
  if (width == 1)
    memset(to, (int)value, count);
  else
    for (u64 k = 0; k < count; k++)
      memcpy(to + k * width, &value, width);
}

static int answer(u64 value, const void *data, u64 count) {
  Message reply = {ANSWER, value, 0, 0, 0};
  return put(&reply, sizeof reply) && put(data, count);
}

static int resolve(u64 length) {
  static void *self;
  char name[256] = {0};
  Dl_info where;
  if (length >= sizeof name || !get(name, length))
    return 0;
  if (!self && dladdr((void *)resolve, &where))
    self = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  return answer((u64)dlsym(self, name), NULL, 0);
}

static int print(u64 length) {
  char part[4096];
  while (length) {
    u64 count = length < sizeof part ? length : sizeof part;
    if (!get(part, count))
      return 0;
    fwrite(part, 1, count, stdout);
    length -= count;
  }
  return !fflush(stdout);
}

static int obey(const Message *m) {
  switch (m->kind) {
    case READ:
      return answer(m->b, reach(m->a), m->b);
    case WRITE:
      return get(reach(m->a), m->b);
    case MOVE:
      memmove(reach(m->a), reach(m->b), m->c);
      return 1;
    case FILL:
      fill(reach(m->a), m->b, m->c, m->d);
      return 1;
    case STRING:
      return answer(strlen((char *)m->a), (char *)m->a, strlen((char *)m->a));
    case CALL:
      fflush(NULL);
      return answer(((u64 (*)(u64, u64, u64))m->a)(m->b, m->c, m->d), NULL, 0);
    case RESOLVE:
      return resolve(m->a);
    case PRINT:
      return print(m->a);
    default:
      return 0;
  }
}

EXPORT u64 sm100sim_call(const char *name, const u64 *words) {
  pthread_mutex_lock(&lock);
  if (state == FRESH)
    try_to_connect();
  if (connection < 0) {
    pthread_mutex_unlock(&lock);
    return state == LEFT && frees(name) ? 0 : (u64)failure;
  }
  Message m = {BEGIN, strlen(name), (u64)gettid(), 0, 0};
  int alive = put(&m, sizeof m) && put(name, m.a) && put(words, WORDS * sizeof *words);
  while (alive && (alive = get(&m, sizeof m)) && m.kind != RETURN)
    alive = obey(&m);
  if (!alive)
    give_up(UNKNOWN, "the simulator's process has ended");
  pthread_mutex_unlock(&lock);
  return alive ? m.a : UNKNOWN;
}

#define ENTRY(name)                     \
  EXPORT u64 name(PARAMETERS) {         \
    const u64 words[WORDS] = ARGUMENTS; \
    return sm100sim_call(#name, words); \
  }
#include "driver_names.h"
