// The names of the functions of Android's libc that the delegate calls, to link with where there is no NDK.
// The linker notes the name of the library only; its code is never part of a package.
#define EE_NAME(name) \
  extern "C" __attribute__((visibility("default"))) void name() {}
EE_NAME(calloc)
EE_NAME(free)
EE_NAME(malloc)
EE_NAME(memcmp)
EE_NAME(memcpy)
EE_NAME(memmove)
EE_NAME(memset)
EE_NAME(snprintf)
EE_NAME(strcmp)
