/* Small float formats: encode from and decode to double, exact in every rounding mode. */
#ifndef SM100SIM_FORMATS_H
#define SM100SIM_FORMATS_H
#include "engine.h"
typedef enum { FMT_F16, FMT_BF16, FMT_TF32, FMT_E4M3, FMT_E5M2, FMT_E2M3, FMT_E3M2, FMT_E2M1, FMT_UE8M0, FMT_F32, FMT_COUNT } Format;
typedef enum { ROUND_RN, ROUND_RZ, ROUND_RM, ROUND_RP, ROUND_RNA } Rounding;
double format_decode(Format f, u32 bits);
/* `satfinite`: NaN and overflow become the largest finite value (formats with NaN keep NaN). */
u32 format_encode(Format f, double x, Rounding r, bool satfinite);
#endif
