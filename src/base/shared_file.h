/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SHARED_FILE_H
#define FERRYI_SHARED_FILE_H

/*
 * Files without a name in any folder, whose memory several processes map. Such a file lives as long
 * as a process has it open or mapped, however the processes end.
 *
 * Another process of the same user opens the file by a name of plain bytes, which may pass through
 * any channel. The name says which descriptor of which process is the file, and has a random
 * number. The file begins with its name. A name that is wrong or out of date therefore finds no
 * file.
 *
 * Locks are the kernel's open file description locks. A lock belongs to one descriptor that
 * ferryi_shared_file_create() or ferryi_shared_file_open() returned, and ends with it, so that the
 * locks of a process that is killed end as well. The descriptor is closed in a forked child, which
 * would keep the locks of its parent.
 */

#include "src/base/base.h"

#define FERRYI_SHARED_FILE_KEY 16

struct ferryi_shared_file_name {
    uint64_t magic;
    unsigned char key[FERRYI_SHARED_FILE_KEY];     /* random */
    unsigned char machine[FERRYI_SHARED_FILE_KEY]; /* of this boot of the machine */
    uint64_t processes; /* number of the namespace in which `process` has a meaning */
    uint32_t process;
    uint32_t descriptor;
    uint64_t reserved;
};

/* Creates a file of `bytes` zeros, except for its name at its beginning, and sets `*out_name`. The
 * size of the file never changes. Fails with OUT_OF_MEMORY, or with UNSUPPORTED if the system has
 * no such files. */
ferry_status ferryi_shared_file_create(size_t bytes, struct ferryi_shared_file_name *out_name,
                                       int *out);
/* Opens the file that a name finds, to read only or to write as well. Sets `*out_bytes` to its
 * size. Fails with INVALID_ARGUMENT if the name finds no file, and with UNSUPPORTED if it is that
 * of another machine, or if this process may not open files of the process of the name. */
ferry_status ferryi_shared_file_open(const struct ferryi_shared_file_name *name, bool writes,
                                     size_t *out_bytes, int *out);
/* Closes a descriptor of one of the two functions above, which ends its locks. */
void ferryi_shared_file_close(int file);

/* Maps bytes of the file, to read only or to write as well. `offset` is a multiple of the page
 * size. The mapping is not one of the descriptor `file`: a forked child that inherits it does not
 * keep the locks of its parent. The caller unmaps it. Fails with OUT_OF_MEMORY. */
ferry_status ferryi_shared_file_map(int file, size_t offset, size_t bytes, bool writes, void **out);

/* Tries to take the lock of a byte, which excludes other locks of this byte if it `writes`. Returns
 * false if another descriptor has a lock that excludes this one. Locks of different bytes are
 * independent. A descriptor that only reads cannot take locks that write. */
bool ferryi_shared_file_try_lock(int file, unsigned byte, bool writes);
void ferryi_shared_file_unlock(int file, unsigned byte);
/* Returns whether another descriptor has a lock of the byte. */
bool ferryi_shared_file_is_locked(int file, unsigned byte);

#endif
