/* f32 functions that hardware approximates; other files use them for their 16-bit forms. */
#ifndef SM100SIM_APPROX_H
#define SM100SIM_APPROX_H
float approx_ex2(float x); float approx_lg2(float x); float approx_rcp(float x); float approx_rsqrt(float x);
float approx_sqrt(float x); float approx_sin(float x); float approx_cos(float x); float approx_tanh(float x);
#endif
