/* A disk that fills up on request, for where no small disk can be mounted: while the file $FULL_DISK_SWITCH exists, files under
   $FULL_DISK_UNDER take no further byte. Overwriting what is there goes on, as on a real disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int full(int fd, off_t end) {
    const char *under = getenv("FULL_DISK_UNDER"), *when = getenv("FULL_DISK_SWITCH");
    char link[64], path[4096];
    struct stat file;
    if (!under || !when || access(when, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (strncmp(path, under, strlen(under)) != 0) return 0;
    if (fstat(fd, &file) != 0 || end <= file.st_size) return 0;
    errno = ENOSPC;
    return 1;
}

static off_t end_of_write(int fd, size_t count) {
    struct stat file;
    off_t at = lseek(fd, 0, SEEK_CUR);
    return at < 0 ? 0 : (fstat(fd, &file) == 0 && file.st_size > at ? file.st_size : at) + (off_t)count;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *from, size_t count) {
    REAL(write);
    return count && full(fd, end_of_write(fd, count)) ? -1 : real(fd, from, count);
}
ssize_t pwrite(int fd, const void *from, size_t count, off_t at) {
    REAL(pwrite);
    return full(fd, at + (off_t)count) ? -1 : real(fd, from, count, at);
}
ssize_t pwrite64(int fd, const void *from, size_t count, off64_t at) {
    REAL(pwrite64);
    return full(fd, at + (off_t)count) ? -1 : real(fd, from, count, at);
}
int fallocate(int fd, int mode, off_t at, off_t count) {
    REAL(fallocate);
    return full(fd, at + count) ? -1 : real(fd, mode, at, count);
}
