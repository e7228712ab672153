/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HOUSEKEEPER_H
#define FERRYI_HOUSEKEEPER_H

/*
 * The housekeeper of a context is a thread that trims pools at the end of their trim periods, also
 * while the program makes no call. The thread is started for the first pool whose options set a
 * trim period, and ends with the context. A context without such a pool has no such thread.
 *
 * In the child of a fork there is no such thread. The child does not use this struct, because it
 * can neither configure nor destroy its parent's pools.
 */

#include <ferry/pool.h>

#include "src/base/base.h"

FERRYI_MUTEX_CLASS(ferryi_housekeeper_mutex); /* locked before the mutex of a pool */

struct ferryi_housekeeper;

/* Creates the housekeeper of a context, without a thread. Returns NULL if there is no memory. */
struct ferryi_housekeeper *ferryi_housekeeper_new(const void *context);
/* Ends the thread if it runs, and does not start it again. A pool may still leave afterwards. The
 * thread may be inside a call of a pool's backend, so the function may block. */
void ferryi_housekeeper_stop(struct ferryi_housekeeper *keeper);
/* Frees a housekeeper whose thread was ended and that serves no pool, and sets *keeper to NULL. */
void ferryi_housekeeper_free(struct ferryi_housekeeper **keeper);

/* Serves the pool from now on, and starts the thread if it does not run. Does nothing if `keeper`
 * is NULL or the pool is served already. If the thread cannot be started, fails and does not serve
 * the pool. */
ferry_status ferryi_housekeeper_serve(struct ferryi_housekeeper *keeper, ferry_pool *pool);
/* Makes the thread read the pools' trim periods again. `keeper` may be NULL. */
void ferryi_housekeeper_wake(struct ferryi_housekeeper *keeper);
/* Stops serving the pool. Blocks while the thread is trimming it. Does nothing if `keeper` is NULL
 * or the pool is not served. */
void ferryi_housekeeper_leave(struct ferryi_housekeeper *keeper, ferry_pool *pool);

#endif
