/* enter SOCKET GROUP… -- COMMAND…: has a preloaded process run COMMAND here, or runs it itself.
 *
 * Runs in a sandbox, in place of the command. Hands its streams, a descriptor of itself, the open control groups, limits
 * and environment to the process at the other end of the socket, whose fork joins all namespaces of this process; then
 * ends as that fork ends. Where nobody answers, it becomes the command.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_DESCRIPTORS 8

extern char **environ;

static void add(FILE *text, const char *word) {
  fwrite(word, strlen(word) + 1, 1, text);
}

/* Command, working directory, limits, environment; each part ends with an empty word. */
static size_t describe(char **command, char **text) {
  char directory[4096], limit[64];
  struct rlimit bounds;
  size_t length = 0;
  FILE *words = open_memstream(text, &length);
  if (words == NULL || getcwd(directory, sizeof directory) == NULL) return 0;
  for (; *command != NULL; command++) add(words, *command);
  add(words, "");
  add(words, directory);
  add(words, "");
  for (int kind = 0; kind < RLIM_NLIMITS && getrlimit(kind, &bounds) == 0; kind++) {
    snprintf(limit, sizeof limit, "%d %lld %lld", kind, (long long)bounds.rlim_cur, (long long)bounds.rlim_max);
    add(words, limit);
  }
  add(words, "");
  for (char **variable = environ; *variable != NULL; variable++) add(words, *variable);
  return fclose(words) == 0 ? length : 0;
}

/* Sends the text with the descriptors; says whether all went. */
static int hand_over(int socket, const char *text, size_t length, const int *descriptors, size_t n) {
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))];
  } control;
  struct iovec part = {(void *)text, length};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room};
  memset(&control, 0, sizeof control);
  message.msg_controllen = CMSG_SPACE(n * sizeof(int));
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
  memcpy(CMSG_DATA(&control.header), descriptors, n * sizeof(int));
  while (length > 0) {
    ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent <= 0) return 0;
    length -= (size_t)sent;
    part.iov_base = (char *)part.iov_base + sent;
    part.iov_len = length;
    message.msg_control = NULL;
    message.msg_controllen = 0;
  }
  return shutdown(socket, SHUT_WR) == 0;
}

/* Closes all descriptors but the streams and this one. */
static void close_all_but(int kept) {
  for (int i = (int)sysconf(_SC_OPEN_MAX) - 1; i > 2; i--)
    if (i != kept) close(i);
}

int main(int argc, char **argv) {
  int socket, code, descriptors[MAX_DESCRIPTORS] = {0, 1, 2, -1};
  size_t n = 4, length;
  char *text = NULL, started;
  if (argc < 4) return 97;
  socket = atoi(argv[1]);
  for (argv += 2; strcmp(*argv, "--") != 0; argv++)
    if (n < MAX_DESCRIPTORS) descriptors[n++] = atoi(*argv);
  argv++;
  /* What runs here has this process's rights and must not get at the descriptors. */
  prctl(PR_SET_DUMPABLE, 0);
  descriptors[3] = (int)syscall(SYS_pidfd_open, getpid(), 0);
  length = descriptors[3] < 0 ? 0 : describe(argv, &text);
  if (length > 0 && hand_over(socket, text, length, descriptors, n) && read(socket, &started, 1) == 1) {
    close_all_but(socket);
    return read(socket, &code, sizeof code) == sizeof code ? code : 137;
  }
  /* The command would not have had them either. */
  close_all_but(-1);
  execv(argv[0], argv);
  perror(argv[0]);
  return 127;
}
