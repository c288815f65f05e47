/* Preloaded into the processes of a run: the wall clock is off by CURATE_CLOCK_SHIFT_S seconds.
 *
 * Monotonic clocks and file times stay real, so that limits, sleeps and builds work as ever. Waits until a moment of the
 * wall clock are moved back by as much, or they would end too late by the whole shift.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* No machine's monotonic clock has run that long, seconds. */
#define LEAST_WALL_TIME 1000000000

static time_t shift(void) {
  static time_t seconds;
  static int known;
  if (!known) {
    const char *text = getenv("CURATE_CLOCK_SHIFT_S");
    seconds = text == NULL ? 0 : (time_t)strtoll(text, NULL, 10);
    known = 1;
  }
  return seconds;
}

int clock_gettime(clockid_t id, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, id, now);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI)) now->tv_sec += shift();
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  if (now != NULL) *now = precise.tv_sec;
  return precise.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

static struct timespec moved(const struct timespec *until) {
  struct timespec real = *until;
  if (real.tv_sec > LEAST_WALL_TIME) real.tv_sec -= shift();
  return real;
}

/* A symbol that has an older version of other meaning is asked for by its newer one. */
static void *real(const char *name, const char *version) {
  void *found = version == NULL ? NULL : dlvsym(RTLD_NEXT, name, version);
  return found != NULL ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
  static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (wait == NULL) wait = real("pthread_cond_timedwait", "GLIBC_2.3.2");
  struct timespec moment = moved(until);
  return wait(condition, mutex, &moment);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
  static int (*lock)(pthread_mutex_t *, const struct timespec *);
  if (lock == NULL) lock = real("pthread_mutex_timedlock", NULL);
  struct timespec moment = moved(until);
  return lock(mutex, &moment);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
  static int (*wait)(sem_t *, const struct timespec *);
  if (wait == NULL) wait = real("sem_timedwait", NULL);
  struct timespec moment = moved(until);
  return wait(semaphore, &moment);
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *request, struct timespec *left) {
  static int (*sleep)(clockid_t, int, const struct timespec *, struct timespec *);
  if (sleep == NULL) sleep = real("clock_nanosleep", NULL);
  struct timespec moment = *request;
  if (id == CLOCK_REALTIME && (flags & TIMER_ABSTIME)) moment = moved(request);
  return sleep(id, flags, &moment, left);
}
