/* Surface loads and stores of raw bytes (PTX ISA, "suld.b", "sust.b"). */
#include "memory/texture.h"

/* Bytes of a lane's access, NULL where .zero leaves it out; false after a fault. */
static bool surface_lane(Ctx *c, const Ins *i, u32 lane, u32 len, bool write, u8 **p) {
  const SurfaceForm *f = &i->form.surface;
  const TextureRecord *t = texture_of(c, R64(c, i->s[0])[lane], lane, f->rank, f->layered, false);
  if (!t)
    return false;
  if (!t->surface) {
    fault(c, "texture-handle", "the object of lane %u is a texture; the instruction needs a surface", lane);
    return false;
  }
  i64 at[3] = {0}, ends[3] = {(i64)t->size[0] * t->channels * t->channel_bytes, t->size[1], t->size[2]};
  u32 layer = f->layered ? R32(c, i->s[1])[lane] : 0;
  bool beyond = false;
  for (u32 k = 0; k < t->rank; k++) {
    i64 last = ends[k] - (k ? 1 : (i64)len);
    at[k] = RI32(c, i->s[1 + f->layered + k])[lane];
    beyond |= at[k] < 0 || at[k] > last;
    if (f->mode == SURFACE_CLAMP)
      at[k] = at[k] < 0 ? 0 : at[k] > last ? last : at[k];
  }
  if ((beyond && f->mode == SURFACE_TRAP) || layer >= (t->layers ? t->layers : 1)) {
    fault(c, "surface-address",
          "%u bytes at x %lld, y %lld, z %lld, layer %u (lane %u) of a surface of %lld bytes by "
          "%u by %u, %u layers",
          len, (long long)at[0], (long long)at[1], (long long)at[2], layer, lane, (long long)ends[0], t->size[1],
          t->size[2], t->layers);
    return false;
  }
  *p = NULL;
  if (beyond && f->mode == SURFACE_ZERO)
    return true;
  if (at[0] % len) {
    fault(c, "misaligned", "x %lld (lane %u) of an access of %u bytes to a surface", (long long)at[0], lane, len);
    return false;
  }
  u64 offset = (u64)at[0] + (u64)at[1] * t->pitch + ((u64)at[2] + layer) * t->slice;
  return (*p = texture_bytes(c, t, offset, len, write, lane)) != NULL;
}

/* The bytes of all lanes, and in c->mask of `d` who has some. */
static Step surface_places(Ctx *c, const Ins *i, u32 elements, bool write, Places *at, Ctx *d) {
  u32 len = elements * i->form.surface.bytes;
  *at = (Places){.outside = true, .len = len};
  *d = *c;
  d->mask = 0;
  FOR_LANES (c->mask, l) {
    if (!surface_lane(c, i, l, len, write, &at->p[l]))
      return STEP_FAULT;
    d->mask |= (u32)(at->p[l] != NULL) << l;
  }
  if (d->mask)
    observe_by(d, at, write ? ACC_WRITE : ACC_READ, 0, PROXY_TEXTURE);
  return STEP_NEXT;
}

/* d: elements; s: handle, {layer}, coordinates, of which x counts bytes. */
static Step op_suld(Ctx *c, const Ins *i) {
  const SurfaceForm *f = &i->form.surface;
  Places at;
  Ctx d;
  Step step = surface_places(c, i, i->nd, false, &at, &d);
  if (step != STEP_NEXT)
    return step;
  for (u32 v = 0; v < i->nd; v++)
    FOR_LANES (c->mask, l) {
      u64 x = 0;
      if (at.p[l])
        memcpy(&x, at.p[l] + v * f->bytes, f->bytes);
      if (f->register_bits == 64)
        R64(c, i->d[v])[l] = x;
      else
        R32(c, i->d[v])[l] = (u32)x;
    }
  return STEP_NEXT;
}

static Step op_sust(Ctx *c, const Ins *i) {
  const SurfaceForm *f = &i->form.surface;
  u32 first = 1u + f->layered + f->rank, n = i->ns - first;
  Places at;
  Ctx d;
  Step step = surface_places(c, i, n, true, &at, &d);
  if (step != STEP_NEXT)
    return step;
  for (u32 v = 0; v < n; v++)
    FOR_LANES (d.mask, l) {
      u64 x = f->register_bits == 64 ? R64(c, i->s[first + v])[l] : R32(c, i->s[first + v])[l];
      memcpy(at.p[l] + v * f->bytes, &x, f->bytes);
    }
  note_progress(c->cl);
  return STEP_NEXT;
}

OP_TABLE(surface) = {{"SULD", op_suld}, {"SUST", op_sust}, {NULL, NULL}};
