/* Texture fetches (PTX ISA, "tex", "txq"; CUDA C++ Programming Guide, "Texture Fetching", "Cubemap Textures").
 *
 * Weights of linear filtering have 8 fractional bits, as documented; that they are rounded to nearest, and that the
 * texels are added in double and rounded once, is a choice: what a device does there is not documented. */
#include "memory/texture.h"
#include "arith/formats.h"
#include "machine/share.h"
#include <math.h>

#define FRACTION 256 /* of a weight */
#define FACES 6u
#define FAR 0x1p40 /* beyond any texel */
#define MAX_RANK 3u

/* Along an axis: the texels that are read, -1 for the border, and their weights in 1 / FRACTION. */
typedef struct {
  i64 at[2];
  u32 weight[2];
} Axis;

/* One lane's fetch: `layer` of the object, an axis per dimension. */
typedef struct {
  const TextureRecord *t;
  u64 layer;
  Axis axis[MAX_RANK];
} Fetch;

const TextureRecord *texture_of(Ctx *c, u64 handle, u32 lane, u32 rank, bool layered, bool cube) {
  const TextureRecord *t = (const TextureRecord *)(uintptr_t)handle;
  if (handle % sizeof(u64) || !gmem_ok(c->m, handle, sizeof *t, false) || t->mark != TEXTURE_MARK) {
    fault(c, "texture-handle", "0x%llx (lane %u) is no handle of a texture or surface object",
          (unsigned long long)handle, lane);
    return NULL;
  }
  bool has_layers = t->cube ? t->layers > FACES : t->layers > 0;
  if (t->rank != rank || has_layers != layered || t->cube != cube) {
    fault(c, "texture", "the object of lane %u has %u dimensions%s%s; the instruction is for another one", lane,
          t->rank, has_layers ? ", layers" : "", t->cube ? ", faces of a cube" : "");
    return NULL;
  }
  return t;
}

u8 *texture_bytes(Ctx *c, const TextureRecord *t, u64 offset, u32 len, bool write, u32 lane) {
  u64 address = t->address + offset;
  char where[NEAREST_BYTES];
  if (!gmem_ok(c->m, address, len, write)) {
    fault(c, "global-address", "%s of a texel of %u bytes at 0x%llx (lane %u) is outside of every known allocation%s",
          write ? "write" : "read", len, (unsigned long long)address, lane, gmem_nearest(c->m, address, len, where));
    return NULL;
  }
  share_touch(c->m, (u8 *)(uintptr_t)address, len, write);
  return (u8 *)(uintptr_t)address;
}

static i64 modulo(i64 a, i64 n) {
  i64 r = a % n;
  return r < 0 ? r + n : r;
}

/* The texel for a position outside (CUDA Driver API, "CUaddress_mode"). */
static i64 inside(i64 at, i64 size, Outside mode) {
  if (at >= 0 && at < size)
    return at;
  switch (mode) {
    case OUTSIDE_WRAP:
      return modulo(at, size);
    case OUTSIDE_MIRROR:
      at = modulo(at, 2 * size);
      return at < size ? at : 2 * size - 1 - at;
    case OUTSIDE_CLAMP:
      return at < 0 ? 0 : size - 1;
    default:
      return -1;
  }
}

/* x in texels.  Wrapped and mirrored coordinates repeat after two sizes.  `both`: as a linear filter has it, and the
 * second texel also where its weight is 0. */
static Axis axis_of(const TextureRecord *t, u32 dim, double x, bool both) {
  i64 size = t->size[dim];
  Outside mode = (Outside)t->outside[dim];
  if (mode == OUTSIDE_WRAP || mode == OUTSIDE_MIRROR)
    x = fmod(x, 2.0 * (double)size);
  x = x > FAR ? FAR : x < -FAR ? -FAR : x;
  i64 at = (i64)floor(x);
  u32 part = 0;
  if (t->linear || both) {
    i64 fixed = (i64)floor((x - 0.5) * FRACTION + 0.5);
    part = (u32)modulo(fixed, FRACTION);
    at = (fixed - part) / FRACTION;
  }
  Axis a = {{inside(at, size, mode), part || both ? inside(at + 1, size, mode) : -1}, {FRACTION - part, part}};
  return a;
}

/* Face of a cube and the coordinates on it, 0 to 1 ("Cubemap Textures", table of faces). */
static bool face_of(const double v[3], u64 *face, double st[2]) {
  double x = fabs(v[0]), y = fabs(v[1]), z = fabs(v[2]), m, s, t;
  if (x > y && x > z) {
    *face = v[0] < 0;
    m = x;
    s = v[0] < 0 ? v[2] : -v[2];
    t = -v[1];
  } else if (y > x && y > z) {
    *face = 2 + (v[1] < 0);
    m = y;
    s = v[0];
    t = v[1] < 0 ? -v[2] : v[2];
  } else if (z > x && z > y) {
    *face = 4 + (v[2] < 0);
    m = z;
    s = v[2] < 0 ? -v[0] : v[0];
    t = -v[1];
  } else
    return false;
  st[0] = (s / m + 1) / 2;
  st[1] = (t / m + 1) / 2;
  return true;
}

/* Coordinates of a lane as numbers; false after a fault. */
static bool coordinates(Ctx *c, const Ins *i, u32 lane, u32 n, double v[MAX_RANK]) {
  const TextureForm *f = &i->form.texture;
  for (u32 k = 0; k < n; k++) {
    u32 slot = i->s[1 + f->layered + k];
    v[k] = f->integer ? (double)RI32(c, slot)[lane] : (double)RF32(c, slot)[lane];
    if (!isfinite(v[k])) {
      fault(c, "texture", "coordinate %u of lane %u is not finite; what is read there is not documented", k, lane);
      return false;
    }
  }
  return true;
}

static bool cube_face(Ctx *c, u32 lane, Fetch *f, double v[MAX_RANK]) {
  u64 face;
  double st[2];
  if (!face_of(v, &face, st)) {
    fault(c, "texture", "the coordinates of lane %u point between faces of the cube; which is read is not documented",
          lane);
    return false;
  }
  f->layer = f->layer * FACES + face;
  for (u32 k = 0; k < 2; k++)
    v[k] = st[k];
  return true;
}

/* Texels along every axis, of a gather both; false after a fault. */
static bool fetch_of(Ctx *c, const Ins *i, u32 lane, bool both, Fetch *f) {
  const TextureForm *form = &i->form.texture;
  const TextureRecord *t = texture_of(c, R64(c, i->s[0])[lane], lane, form->rank, form->layered, form->cube);
  double v[MAX_RANK];
  if (!t || !coordinates(c, i, lane, form->cube ? MAX_RANK : form->rank, v))
    return false;
  *f = (Fetch){.t = t, .layer = form->layered ? R32(c, i->s[1])[lane] : 0};
  if (form->cube && !cube_face(c, lane, f, v))
    return false;
  if (f->layer && f->layer >= t->layers) {
    fault(c, "texture", "layer %llu (lane %u) of %u; what is read there is not documented",
          (unsigned long long)f->layer, lane, t->layers);
    return false;
  }
  if (form->integer && (t->linear || t->normalized)) {
    fault(c, "texture", "integer coordinates, of lane %u, of an object with filtering or normalized coordinates", lane);
    return false;
  }
  for (u32 k = 0; k < t->rank; k++) {
    double scaled = t->normalized || t->cube ? v[k] * t->size[k] : v[k];
    bool beyond = scaled < 0 || scaled >= t->size[k];
    f->axis[k] = axis_of(t, k, scaled, both);
    const Axis *a = &f->axis[k];
    if (t->memory && beyond) {
      fault(c, "texture", "element %g (lane %u) of linear memory with %u", v[k], lane, t->size[k]);
      return false;
    }
    if (t->cube && t->linear && a->weight[1] && (a->at[0] + 1 != a->at[1])) {
      fault(c, "texture", "lane %u filters across an edge of a cube's face, which is not modelled", lane);
      return false;
    }
  }
  return true;
}

/* One of the 2^rank texels: its weight, and its offset in the object; at the border -1. */
static double corner_of(const Fetch *f, u32 corner, i64 *offset) {
  const TextureRecord *t = f->t;
  u64 step[MAX_RANK] = {(u64)t->channels * t->channel_bytes, t->pitch, t->slice};
  double weight = 1;
  *offset = (i64)(f->layer * t->slice);
  for (u32 k = 0; k < t->rank; k++) {
    const Axis *a = &f->axis[k];
    u32 side = corner >> k & 1;
    weight *= (double)a->weight[side] / FRACTION;
    if (*offset >= 0)
      *offset = a->at[side] < 0 ? -1 : *offset + a->at[side] * (i64)step[k];
  }
  return weight;
}

static float f32_of(u32 bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* A channel of a texel as a number ("Texture Object API", cudaReadModeNormalizedFloat). */
static double channel_of(const TextureRecord *t, const u8 *texel, u32 channel) {
  u32 bytes = t->channel_bytes, bits = 0, spare = 32 - 8 * bytes;
  memcpy(&bits, texel + channel * bytes, bytes);
  if (t->type == TEXEL_FLOAT)
    return bytes == 2 ? decode_f16(bits) : f32_of(bits);
  double largest = (double)(NONE32 >> spare >> (t->type == TEXEL_SIGNED));
  double value = t->type == TEXEL_SIGNED ? (double)((i32)(bits << spare) >> spare) : (double)bits;
  if (!t->fraction)
    return value;
  return value < -largest ? -1 : value / largest;
}

static u32 result_of(double value, TexelType type) {
  float narrow = (float)value;
  u32 bits;
  if (type != TEXEL_FLOAT)
    return (u32)(i64)value;
  memcpy(&bits, &narrow, sizeof bits);
  return bits;
}

/* The results have the type that the object gives; of its channels, those that it lacks are not documented, and no
 * value. */
static Step give(Ctx *c, const Ins *i, const Fetch fetch[LANES], bool channels, double sum[4][LANES]) {
  TexelType type = (TexelType)i->form.texture.type;
  FOR_LANES (c->mask, l) {
    const TextureRecord *t = fetch[l].t;
    bool floats = t->type == TEXEL_FLOAT || t->fraction;
    if (floats != (type == TEXEL_FLOAT))
      return fault(c, "texture", "the object of lane %u gives %s, the instruction reads the other kind", l,
                   floats ? "floats" : "integers");
    for (u32 k = 0; k < 4; k++)
      R32(c, i->d[k])[l] = !channels || k < t->channels ? result_of(sum[k][l], type) : c->m->opt.poison ? NONE32 : 0;
  }
  return STEP_NEXT;
}

/* The texels of one corner by lane, NULL in the border, and their weights; without a weight only `all` reads one. */
static Step read_corner(Ctx *c, const Fetch fetch[LANES], u32 corner, bool all, const u8 *texel[LANES],
                        double weight[LANES]) {
  Places at = {.outside = true};
  Ctx d = *c; /* the lanes that read a texel */
  d.mask = 0;
  FOR_LANES (c->mask, l) {
    const TextureRecord *t = fetch[l].t;
    i64 offset;
    weight[l] = corner_of(&fetch[l], corner, &offset);
    texel[l] = NULL;
    if (offset < 0 || (weight[l] <= 0 && !all))
      continue;
    at.len = (u32)t->channels * t->channel_bytes;
    if (!(texel[l] = at.p[l] = texture_bytes(c, t, (u64)offset, at.len, false, l)))
      return STEP_FAULT;
    d.mask |= 1u << l;
  }
  if (d.mask)
    observe_by(&d, &at, ACC_READ, 0, PROXY_TEXTURE);
  return STEP_NEXT;
}

static double value_of(const TextureRecord *t, const u8 *texel, u32 channel) {
  return texel ? channel_of(t, texel, channel) : (double)f32_of(t->border[channel]);
}

/* d: four channels; s: handle, {layer}, coordinates. */
static Step op_tex(Ctx *c, const Ins *i) {
  Fetch fetch[LANES];
  const u8 *texel[LANES];
  double weight[LANES], sum[4][LANES] = {0};
  Step s;
  FOR_LANES (c->mask, l)
    if (!fetch_of(c, i, l, false, &fetch[l]))
      return STEP_FAULT;
  for (u32 corner = 0; corner < 1u << i->form.texture.rank; corner++) {
    if ((s = read_corner(c, fetch, corner, false, texel, weight)) != STEP_NEXT)
      return s;
    FOR_LANES (c->mask, l)
      for (u32 k = 0; weight[l] > 0 && k < fetch[l].t->channels; k++)
        sum[k][l] += weight[l] * value_of(fetch[l].t, texel[l], k);
  }
  return give(c, i, fetch, true, sum);
}

/* One channel of the four texels that a linear filter would weigh, whatever the object's filter, from the one with the
 * lower x and the higher y on towards the higher x (an H100: tests/data/texture-gathers-h100.json).  imm: channel. */
static Step op_tld4(Ctx *c, const Ins *i) {
  static const u32 corners[] = {2, 3, 1, 0};
  Fetch fetch[LANES];
  const u8 *texel[LANES];
  double weight[LANES], found[4][LANES];
  u32 channel = (u32)i->imm;
  Step s;
  FOR_LANES (c->mask, l) {
    if (!fetch_of(c, i, l, true, &fetch[l]))
      return STEP_FAULT;
    if (channel >= fetch[l].t->channels)
      return fault(c, "texture", "channel %u (lane %u) of %u; what is read there is not documented", channel, l,
                   fetch[l].t->channels);
  }
  for (u32 k = 0; k < 4; k++) {
    if ((s = read_corner(c, fetch, corners[k], true, texel, weight)) != STEP_NEXT)
      return s;
    FOR_LANES (c->mask, l)
      found[k][l] = value_of(fetch[l].t, texel[l], channel);
  }
  return give(c, i, fetch, false, found);
}

/* txq, suq: a fact of the object; dimensions that it lacks are 0.  imm: TextureFact. */
static Step op_txq(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l) {
    u64 handle = R64(c, i->s[0])[l];
    const TextureRecord *t = (const TextureRecord *)(uintptr_t)handle;
    if (!gmem_ok(c->m, handle, sizeof *t, false) ||
        !texture_of(c, handle, l, t->rank, t->layers > (t->cube ? FACES : 0), t->cube))
      return STEP_FAULT;
    u32 answers[FACT_COUNT] = {[FACT_WIDTH] = t->size[0],
                               [FACT_HEIGHT] = t->rank > 1 ? t->size[1] : 0,
                               [FACT_DEPTH] = t->rank > 2 ? t->size[2] : 0,
                               [FACT_ARRAY_SIZE] = t->layers,
                               [FACT_NORMALIZED_COORDS] = t->normalized};
    R32(c, i->d[0])[l] = answers[i->imm];
  }
  return STEP_NEXT;
}

OP_TABLE(texture) = {{"TEX", op_tex}, {"TLD4", op_tld4}, {"TXQ", op_txq}, {NULL, NULL}};
