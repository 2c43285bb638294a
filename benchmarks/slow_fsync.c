/* Loaded before the C library, makes every fsync and fdatasync take FSYNC_DELAY_MS longer: a disk as slow as one chooses. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_a_while(void) {
    const char *delay = getenv("FSYNC_DELAY_MS");
    if (delay) usleep((useconds_t)atoi(delay) * 1000);
}

int fsync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_a_while();
    return real(descriptor);
}

int fdatasync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_a_while();
    return real(descriptor);
}
