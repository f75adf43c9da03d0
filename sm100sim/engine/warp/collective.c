/* Operations across the lanes of a warp (PTX ISA: shfl.sync, vote.sync, match.sync, redux.sync,
 * elect.sync, activemask).  All name their member lanes, which must meet here. */
#include "arith/numeric.h"

/* What an operation does once its members are together: c->mask is exactly the live members. */
typedef void (*Together)(Ctx *c, const Ins *i);

static u32 lanes_naming(const Ctx *c, const u32 *named, u32 members) {
  u32 out = 0;
  for (u32 l = 0; l < LANES; l++)
    out |= (u32)(named[l] == members) << l;
  return out & c->mask;
}

static Step not_a_member(Ctx *c, u32 lanes, u32 members) {
  return fault(c, "membermask", "lanes %08x execute the instruction but are not in member mask %08x", lanes & ~members,
               members);
}

/* Lanes of one split may name several masks when every group is complete here ("a thread waits for the
 * non-exited threads of its membermask to execute the same instruction with the same membermask"). */
static Step by_groups(Ctx *c, const Ins *i, const u32 *named, Together op) {
  u32 all = c->mask, left = all;
  while (left) {
    u32 members = named[first_lane(left)], group = lanes_naming(c, named, members) & left;
    if (group & ~members)
      return not_a_member(c, group, members);
    if (members & live_lanes(c->w) & ~group)
      return fault(c, "membermask",
                   "lanes name different member masks; lanes %08x of mask %08x do not execute this instruction with it",
                   members & live_lanes(c->w) & ~group, members);
    c->mask = group;
    op(c, i);
    c->mask = all;
    left &= ~group;
  }
  return STEP_NEXT;
}

/* Bring the lanes of the member mask in register `slot` together, then operate. */
static Step together(Ctx *c, const Ins *i, u32 slot, Together op) {
  const u32 *named = R32(c, slot);
  u32 members = named[first_lane(c->mask)];
  if (lanes_naming(c, named, members) != c->mask)
    return by_groups(c, i, named, op);
  if (c->mask & ~members)
    return not_a_member(c, c->mask, members);
  Step step = warp_converge(c, members);
  if (step != STEP_NEXT)
    return step;
  return by_groups(c, i, named, op);
}

/* MEET(name, slot): the handler `name`, which runs do_name for one complete group of members. */
#define MEET(name, operand)                          \
  static void do_##name(Ctx *c, const Ins *i);       \
  HANDLER(name) {                                    \
    return together(c, i, i->s[operand], do_##name); \
  }

/* The source lane of every lane and, as bits, whether it lies in the lane's segment (PTX ISA, "shfl.sync"). */
static u32 source_lanes(u32 mode, const u32 *b, const u32 *cl, u32 *from) {
  u32 good = 0, ok[LANES];
  for (u32 l = 0; l < LANES; l++) {
    u32 by = b[l] & 31, seg = cl[l] >> 8 & 31, clamp = cl[l] & 31, max_lane = (l & seg) | (clamp & ~seg);
    u32 at = mode == SHFL_UP     ? l - by
             : mode == SHFL_DOWN ? l + by
             : mode == SHFL_BFLY ? l ^ by
                                 : (l & seg) | (by & ~seg);
    ok[l] = mode == SHFL_UP ? (i32)at >= (i32)max_lane : at <= max_lane;
    from[l] = ok[l] ? at : l;
  }
  for (u32 l = 0; l < LANES; l++)
    good |= ok[l] << l;
  return good;
}

/* s = value, b, c, members; d[1] = predicate "in range" */
MEET(SHFL, 3);

static void do_SHFL(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]), from[LANES], in[LANES], out[LANES];
  u32 ok = source_lanes(i->form.collective.mode, R32(c, i->s[1]), R32(c, i->s[2]), from);
  memcpy(in, R32(c, i->s[0]), sizeof in);
  for (u32 l = 0; l < LANES; l++)
    out[l] = in[from[l]];
  if (c->mask != NONE32)
    FOR_LANES (c->mask, l)
      if (!(c->mask >> from[l] & 1))
        finding(c, 0, "shuffle-from-inactive-lane", "lane %u reads lane %u, which does not take part", l, from[l]);
  LANE_LOOP(d[l] = out[l]);
  if (i->nd > 1)
    set_pred(c, i->d[1], ok);
}

/* s = predicate, members */
MEET(VOTE, 1);

static void do_VOTE(Ctx *c, const Ins *i) {
  u32 mode = i->form.collective.mode, p = (PRED(c, i->s[0]) ^ (i->form.collective.negated ? NONE32 : 0)) & c->mask;
  if (mode == VOTE_BALLOT) {
    FOR_LANES (c->mask, l)
      R32(c, i->d[0])[l] = p;
    return;
  }
  bool v = mode == VOTE_ANY ? p != 0 : mode == VOTE_ALL ? p == c->mask : p == c->mask || p == 0;
  set_pred(c, i->d[0], v ? NONE32 : 0);
}

/* The elected lane is the lowest member: the ISA promises only that the choice is deterministic. */
MEET(ELECT, 0);

static void do_ELECT(Ctx *c, const Ins *i) {
  u32 leader = first_lane(c->mask);
  FOR_LANES (c->mask, l)
    R32(c, i->d[0])[l] = leader;
  set_pred(c, i->d[1], 1u << leader);
}

static Step op_ACTIVEMASK(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l)
    R32(c, i->d[0])[l] = c->sp->mask;
  return STEP_NEXT;
}

/* s = value, members; d[1] predicate of all */
MEET(MATCH, 1);

static void do_MATCH(Ctx *c, const Ins *i) {
  bool wide = i->form.collective.wide;
  u32 out[LANES], same = 1;
  FOR_LANES (c->mask, l) {
    u64 v = wide ? R64(c, i->s[0])[l] : R32(c, i->s[0])[l];
    u32 m = 0;
    FOR_LANES (c->mask, k)
      if ((wide ? R64(c, i->s[0])[k] : R32(c, i->s[0])[k]) == v)
        m |= 1u << k;
    out[l] = m;
    same &= m == c->mask;
  }
  FOR_LANES (c->mask, l)
    R32(c, i->d[0])[l] = i->form.collective.all ? (same ? c->mask : 0) : out[l];
  if (i->nd > 1)
    set_pred(c, i->d[1], same ? NONE32 : 0);
}

static u32 combine(u32 op, u32 a, u32 b, bool nan) {
  float x = float_of(a), y = float_of(b);
  switch (op) {
    case REDUX_ADD:
      return a + b;
    case REDUX_MIN_U32:
      return a < b ? a : b;
    case REDUX_MAX_U32:
      return a > b ? a : b;
    case REDUX_MIN_S32:
      return (i32)a < (i32)b ? a : b;
    case REDUX_MAX_S32:
      return (i32)a > (i32)b ? a : b;
    case REDUX_AND:
      return a & b;
    case REDUX_OR:
      return a | b;
    case REDUX_XOR:
      return a ^ b;
    default:
      if (x != x || y != y)
        return nan || (x != x && y != y) ? NAN32 : x != x ? b : a;
      if (x == y)
        return op == REDUX_MAX_F32 ? a & b : a | b;
      return (x < y) == (op == REDUX_MIN_F32) ? a : b;
  }
}

/* s = value, members */
MEET(REDUX, 1);

static void do_REDUX(Ctx *c, const Ins *i) {
  const CollectiveForm f = i->form.collective;
  bool first = true;
  u32 v = 0;
  FOR_LANES (c->mask, l) {
    u32 x = R32(c, i->s[0])[l];
    if (f.absolute)
      x &= 0x7FFFFFFFu;
    if (first && f.mode >= REDUX_MIN_F32)
      x = bits_of(canon(float_of(x)));
    v = first ? x : combine(f.mode, v, x, f.nan);
    first = false;
  }
  FOR_LANES (c->mask, l)
    R32(c, i->d[0])[l] = v;
}

OP_TABLE(warp) = {
#define E(n) {#n, op_##n}
    E(SHFL), E(VOTE), E(ELECT), E(ACTIVEMASK), E(MATCH), E(REDUX), {NULL, NULL}};
