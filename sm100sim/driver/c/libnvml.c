/* The library that stands where libnvidia-ml.so.1 stands. */
#include "forward.h"
#include "nvml_names.h"
