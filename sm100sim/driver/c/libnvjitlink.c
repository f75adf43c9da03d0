/* The library that stands where libnvJitLink.so.13 stands. */
#include "forward.h"
#include "nvjitlink_names.h"
