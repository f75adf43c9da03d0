/* f32 functions that hardware approximates; the 16-bit formats use them too. */
#ifndef SM100SIM_APPROX_H
#define SM100SIM_APPROX_H
void approx_ex2(const float *x, float *out); /* all lanes */
float approx_tanh(float x);                  /* one */
#endif
