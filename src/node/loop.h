/* loop.h: loop devices by ioctl. They clear themselves when the last user goes. */
#pragma once

#include <sys/stat.h>

#include "base/err.h"

#define LOOP_NAME_SIZE 24

/* Binds a free device to the open file; holds it through *ret_fd until something else does.
 * A writable device never turns discards or zeroing into holes in its file: blocks that held data
 * must stay with the file, or an erase could not reach them. */
enum err loop_attach(int file, bool read_only, char ret_name[LOOP_NAME_SIZE], int *ret_fd,
                     struct refusal *why);
/* The device bound to this file; false when there is none. ret_fd may be NULL. */
bool loop_find(const struct stat *file, char ret_name[LOOP_NAME_SIZE], int *ret_fd);
/* Waits up to ms for the device of this file to go away. */
bool loop_wait_gone(const struct stat *file, int64_t ms);
/* Takes the file's new size. */
enum err loop_resize(int fd, struct refusal *why);
/* Calls each with the device and its backing file, for every bound device. */
void loop_each(void (*each)(void *user, const char *name, const char *file), void *user);
