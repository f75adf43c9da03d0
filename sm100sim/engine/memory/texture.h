/* Texture and surface objects. */
#ifndef SM100SIM_TEXTURE_H
#define SM100SIM_TEXTURE_H
#include "memory/address.h"

/* The record that a lane's handle points at, if it has these dimensions; NULL after a fault. */
const TextureRecord *texture_of(Ctx *c, u64 handle, u32 lane, u32 rank, bool layered, bool cube);
/* Bytes at a place of it, inside a known allocation; NULL after a fault. */
u8 *texture_bytes(Ctx *c, const TextureRecord *t, u64 offset, u32 len, bool write, u32 lane);
#endif
