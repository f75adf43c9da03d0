/* Integer types, the names of the machine's parts, and what a handler answers. */
#ifndef SM100SIM_TYPES_H
#define SM100SIM_TYPES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

typedef struct AsyncOp AsyncOp;
typedef struct Check Check;
typedef struct Cluster Cluster;
typedef struct Cta Cta;
typedef struct Ctx Ctx;
typedef struct Ins Ins;
typedef struct Machine Machine;
typedef struct Past Past;
typedef struct Share Share;
typedef struct Touched Touched;
typedef struct Warp Warp;

typedef enum { STEP_NEXT, STEP_JUMP, STEP_BLOCK, STEP_EXIT, STEP_FAULT } Step;

typedef Step (*Handler)(Ctx *c, const Ins *i);
#endif
