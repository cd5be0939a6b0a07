/* Threads, locks and conditions for the server. Each system has one implementation (thread_posix.c,
 * thread_windows.c). */
#ifndef CLEF_TOOLS_SERVE_OS_THREAD_H
#define CLEF_TOOLS_SERVE_OS_THREAD_H

#ifdef _WIN32
/* As SRWLOCK and CONDITION_VARIABLE of <synchapi.h>, whose header would define far more. */
typedef struct serve_lock {
    void *system;
} serve_lock;
typedef struct serve_condition {
    void *system;
} serve_condition;
typedef void *serve_thread;
#else
#    include <pthread.h>
typedef pthread_mutex_t serve_lock;
typedef pthread_cond_t serve_condition;
typedef pthread_t serve_thread;
#endif

void serve_lock_init(serve_lock *lock);
void serve_lock_finish(serve_lock *lock);
void serve_lock_take(serve_lock *lock);
void serve_lock_release(serve_lock *lock);

void serve_condition_init(serve_condition *c);
void serve_condition_finish(serve_condition *c);
/** Releases the lock, which the caller holds, while it waits. It may return although nobody has signalled. */
void serve_condition_wait(serve_condition *c, serve_lock *lock);
/** The same, for some seconds at most. */
void serve_condition_wait_seconds(serve_condition *c, serve_lock *lock, double seconds);
void serve_condition_signal(serve_condition *c);    /* wakes one thread */
void serve_condition_broadcast(serve_condition *c); /* wakes all of them */

/** Starts run(user) in a thread of its own. Returns 0 if the system has none left. */
int serve_thread_start(serve_thread *out, void (*run)(void *user), void *user);
/** From now on the calling thread runs where others leave time. */
void serve_thread_lower(void);
/** Waits until it has ended. */
void serve_thread_join(serve_thread thread);

#endif
