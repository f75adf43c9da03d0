/* f32 functions that hardware approximates; the 16-bit formats use them too. */
#ifndef SM100SIM_APPROX_H
#define SM100SIM_APPROX_H
float approx_ex2(float x);
float approx_tanh(float x);
#endif
