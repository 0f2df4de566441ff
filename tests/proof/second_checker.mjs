// A second checker of proof files, after docs/proof-format.md. It shares no code with verify.py, and has its own way to
// logarithms and exponentials.
//
//     node second_checker.mjs PROOF DATA [PROOF DATA ...]
//
// DATA is the canonical text of the data. One line for each pair: "verified", or "refused: " and the reason.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

class Refusal extends Error {}
const refuse = (reason) => { throw new Refusal(reason); };
const must = (condition, reason) => { if (!condition) refuse(reason); };

// ---------------------------------------------------------------------------------------------- rational numbers

const positive = (n) => (n < 0n ? -n : n);
function divisor(a, b) {
  if (a === 0n) return b;
  if ((b & (b - 1n)) === 0n) {               // a power of two: so is the divisor
    const even = a & -a;
    return even < b ? even : b;
  }
  a = positive(a);
  while (b) [a, b] = [b, a % b];
  return a;
}
class Q {
  constructor(n, d = 1n) {
    if (d < 0n) [n, d] = [-n, -d];
    if (d !== 1n) {
      const g = divisor(n, d);
      [n, d] = [n / g, d / g];
    }
    this.n = n;
    this.d = d;
  }
  plus(o) { return this.d === o.d ? new Q(this.n + o.n, this.d) : new Q(this.n * o.d + o.n * this.d, this.d * o.d); }
  minus(o) { return this.plus(new Q(-o.n, o.d)); }
  times(o) { return new Q(this.n * o.n, this.d * o.d); }
  over(o) { return new Q(this.n * o.d, this.d * o.n); }
  compare(o) { const x = this.n * o.d - o.n * this.d; return x < 0n ? -1 : x > 0n ? 1 : 0; }
  get sign() { return this.n < 0n ? -1 : this.n > 0n ? 1 : 0; }
  get size() { return this.n < 0n ? new Q(-this.n, this.d) : this; }
  floor(shift) { const x = this.n << shift; return x >= 0n ? x / this.d : -((-x + this.d - 1n) / this.d); }
}
const ZERO = new Q(0n), ONE = new Q(1n), TWO = new Q(2n);
const sum = (list) => list.reduce((a, b) => a.plus(b), ZERO);
const larger = (a, b) => (a.compare(b) >= 0 ? a : b);
const integer = (k) => new Q(BigInt(k));

// ------------------------------------------------------------------------------------------- log and exp, enclosed

const F = 220n, UNIT = 1n << F;              // fixed point
const NEAR = 1n << (F - 120n);               // every value below is within 2^-120 of the true one
const MARGIN = new Q(1n, 1n << 110n);

function expOfNegative(t) {                  // e^-t for t >= 0: (e^(-t/2^k))^(2^k) with t/2^k < 2^-8
  if (t >= 200n * UNIT) return 0n;           // e^-200 < 2^-280
  let k = 0n;
  while (t >> k > UNIT >> 8n) k += 1n;
  const r = t >> k;
  let term = UNIT, result = UNIT;
  for (let i = 1n; term !== 0n; i += 1n) {
    term = (term * r >> F) / i;
    result += i % 2n ? -term : term;
  }
  for (let i = 0n; i < k; i += 1n) result = result * result >> F;
  return result;
}

function logOfUnit(x) {                      // log(x) for 0 < x <= 1, by Halley's iteration on e^-t = x
  let t = BigInt(x.toString(2).length);
  t = (F + 1n - t) * UNIT * 693147n / 1000000n;
  for (let i = 0; i < 60; i += 1) {
    const e = expOfNegative(t);
    const step = 2n * (e - x) * UNIT / (e + x);
    t += step;
    if (t < 0n) t = 0n;
    if (positive(step) <= 1n << 90n) break;
  }
  return -t;
}

const logistic = (m) => {                    // an upper bound of log(1 + e^-m)
  const x = m.floor(F);
  const e = expOfNegative(positive(x));
  // log(1 + e) = log(2) + log((1 + e)/2)
  const value = LOG2 + logOfUnit((UNIT + e) >> 1n) + (x < 0n ? -x : 0n);
  return new Q(value, UNIT).plus(MARGIN);
};
const LOG2 = -logOfUnit(UNIT >> 1n);
const entropy = (b) => {                     // a lower bound of -b log b - (1-b) log(1-b)
  if (b.sign === 0 || b.compare(ONE) === 0) return ZERO;
  const x = b.floor(F), z = UNIT - x;
  const part = (v) => (v === 0n ? 0n : -v * logOfUnit(v));
  return new Q(part(x) + part(z), UNIT * UNIT).minus(MARGIN);
};

// ------------------------------------------------------------------------------------------------------- the grammar

const COUNT = /^(0|[1-9][0-9]{0,17})$/;
const NUMBER = /^(-?)([1-9a-f][0-9a-f]*)p(0|-?[1-9][0-9]*)$/;

function count(text) {
  must(COUNT.test(text), `not a count: ${text}`);
  return Number(text);
}
function number(text) {
  if (text === "0") return ZERO;
  const found = NUMBER.exec(text);
  must(found && found[2].length <= 14 && found[3].length <= 5, `not a number: ${text}`);
  const mantissa = BigInt(`0x${found[2]}`), exponent = Number(found[3]);
  must(mantissa % 2n === 1n && mantissa < 1n << 53n, `not an odd mantissa below 2^53: ${text}`);
  must(exponent >= -1074 && mantissa.toString(2).length + exponent <= 1024, `out of range: ${text}`);
  const n = found[1] ? -mantissa : mantissa;
  return exponent < 0 ? new Q(n, 1n << BigInt(-exponent)) : new Q(n << BigInt(exponent));
}
function entries(words, size) {
  const found = new Map();
  let last = -1;
  for (const word of words) {
    const colon = word.indexOf(":");
    must(colon > 0, `not an entry: ${word}`);
    const place = count(word.slice(0, colon)), value = number(word.slice(colon + 1));
    must(place > last && place < size, `place ${place} is out of order or too large`);
    must(value.sign !== 0, `a zero at place ${place}`);
    found.set(place, value);
    last = place;
  }
  return found;
}
function linesOf(bytes) {
  must(bytes.every((b) => b < 128) && bytes.at(-1) === 10, "not ASCII text that ends with a line feed");
  return bytes.toString("latin1").slice(0, -1).split("\n");
}
const digest = (bytes) => createHash("sha256").update(bytes).digest("hex");

function readData(bytes) {
  const lines = linesOf(bytes);
  must(lines[0] === "dualgap-data 1" && lines.length > 1, "not a data file");
  const sizes = lines[1].split(" ").map(count);
  must(sizes.length === 3 && sizes[0] === lines.length - 2, "the number of rows is another");
  const [n, d, classes] = sizes;
  const kinds = [], rows = [];
  for (const line of lines.slice(2)) {
    const [kind, ...words] = line.split(" ");
    kinds.push(count(kind));
    must(kinds.at(-1) < classes, "a class that is not there");
    rows.push(entries(words, d));
  }
  return { n, d, classes, kinds, rows };
}

class Body {
  constructor(lines) { this.lines = lines; this.next = 0; }
  rest(keyword) {
    const line = this.lines[this.next] ?? "";
    must(line === keyword || line.startsWith(`${keyword} `), `expected '${keyword}', found '${line.slice(0, 40)}'`);
    this.next += 1;
    return line === keyword ? null : line.slice(keyword.length + 1);
  }
  words(keyword) { const rest = this.rest(keyword); return rest === null ? [] : rest.split(" "); }
  one(keyword) { const words = this.words(keyword); must(words.length === 1, `one word after ${keyword}`); return words[0]; }
  string(keyword) {
    const rest = this.rest(keyword) ?? "";
    let value = null;
    try { value = JSON.parse(rest); } catch { /* refused below */ }
    must(typeof value === "string" && rest.startsWith('"') && rest.endsWith('"'), `a string after ${keyword}`);
    return value;
  }
  named(keyword, known) {
    const words = this.words(keyword);
    must(Object.hasOwn(known, words[0] ?? "") && words.length === 1 + known[words[0]], `${keyword} ${words.join(" ")}`);
    return [words[0], ...words.slice(1).map(number)];
  }
}

function readProof(bytes) {
  const first = bytes.indexOf(10), second = bytes.indexOf(10, first + 1);
  must(bytes.subarray(0, first).toString("latin1") === "dualgap-proof 1", "not a proof of version 1");
  must(second > first, "cut short");
  const inside = bytes.subarray(second + 1);
  must(bytes.subarray(first + 1, second).toString("latin1") === `sha256 ${digest(inside)}`, "SHA-256 of the body differs");
  const body = new Body(linesOf(inside));
  const proof = { data: body.one("data"), n: count(body.one("rows")), d: count(body.one("columns")), labels: [], problems: [] };
  must(/^[0-9a-f]{64}$/.test(proof.data), "not a digest");
  const classes = count(body.one("classes"));
  must(classes >= 2, "fewer than two classes");
  for (let k = 0; k < classes; k += 1) {
    const quoted = (body.lines[body.next] ?? "").startsWith('class "');
    const label = quoted ? JSON.stringify(body.string("class")) : body.one("class");
    if (!quoted) number(label);
    must(!proof.labels.includes(label), "a class twice");
    proof.labels.push(label);
  }
  body.string("maker");
  for (let k = count(body.one("preparation")); k > 0; k -= 1) body.string("step");
  const problems = count(body.one("problems"));
  must(problems >= 1, "no problem");
  for (let k = 0; k < problems; k += 1) proof.problems.push(readProblem(body, proof));
  must(body.rest("end") === null && body.next === body.lines.length, "lines after end");
  return proof;
}

function readProblem(body, proof) {
  const p = { title: body.string("problem"), sides: body.words("sides") };
  p.loss = body.named("loss", { hinge: 0, smooth_hinge: 1, squared_hinge: 0, logistic: 0, crammer_singer: 0 });
  p.l2 = number(body.one("l2"));
  p.l1 = number(body.one("l1"));
  p.intercept = body.named("intercept", { none: 0, free: 0, penalised: 1 });
  p.kernel = body.named("kernel", { none: 0, linear: 0, poly: 3, rbf: 1, precomputed: 0 });
  p.gap = number(body.one("gap"));
  p.joint = p.loss[0] === "crammer_singer";
  const classes = proof.labels.length, models = p.joint ? classes : 1;
  if (p.joint) {
    must(p.sides.length === 1 && p.sides[0] === "all", "crammer_singer has sides all");
  } else {
    must(p.sides.length === 2, "two sides");
    p.plus = count(p.sides[0]);
    p.minus = p.sides[1] === "rest" ? null : count(p.sides[1]);
    must(p.plus < classes && (p.minus ?? 0) < classes && p.plus !== p.minus, "sides that are no two classes");
  }
  p.c = [];
  for (const word of body.words("weights")) {
    const star = word.indexOf("*");
    const times = star < 0 ? 1 : count(word.slice(0, star)), value = number(word.slice(star + 1));
    must(p.c.length + times <= proof.n, "too many weights");
    for (let i = 0; i < times; i += 1) p.c.push(value);
  }
  const size = p.kernel[0] === "none" ? proof.d : proof.n;
  p.coef = [];
  for (let k = 0; k < models; k += 1) p.coef.push(entries(body.words("coef"), size));
  p.bias = body.words("bias").map(number);
  must(p.bias.length === models, "the number of biases");
  const balance = body.words("balance");
  p.balance = balance.length === 1 && balance[0] === "none" ? null : balance.map(count);
  p.beta = [];
  for (let k = 0; k < models; k += 1) p.beta.push(entries(body.words("beta"), proof.n));
  return p;
}

// ------------------------------------------------------------------------------------------------------ the conditions

function checkProblem(p) {
  const whole = (q) => q.floor(0n) * q.d === q.n;
  must(p.gap.sign >= 0, "a negative gap");
  must(p.l2.sign >= 0 && p.l1.sign >= 0 && p.l2.plus(p.l1).sign > 0, "l2 and l1");
  must(p.loss[0] !== "smooth_hinge" || p.loss[1].sign > 0, "delta must be positive");
  if (p.intercept[0] === "penalised") must(p.intercept[1].sign > 0 && p.l2.sign > 0, "a penalised intercept");
  if (p.intercept[0] === "none") must(p.bias.every((b) => b.sign === 0), "a bias without an intercept");
  if (p.intercept[0] !== "free") must(p.balance === null, "a balance row without a free intercept");
  if (p.kernel[0] !== "none") must(p.l1.sign === 0 && !p.joint, "a kernel takes neither l1 nor crammer_singer");
  if (p.joint) must(p.l1.sign === 0, "crammer_singer takes no l1");
  if (p.kernel[0] === "poly" || p.kernel[0] === "rbf") must(p.kernel[1].sign > 0, "gamma must be positive");
  if (p.kernel[0] === "poly") {
    must(p.kernel[2].sign >= 0, "r must not be negative");
    must(whole(p.kernel[3]) && p.kernel[3].sign >= 0 && p.kernel[3].compare(integer(100)) <= 0, "the degree");
  }
  must(p.c.every((c) => c.sign >= 0), "a negative weight");
}

const inner = (a, b) => {
  const list = [];
  for (const [place, value] of a) if (b.has(place)) list.push(value.times(b.get(place)));
  return sum(list);
};

function combine(rows, v) {
  const u = new Map();
  for (const [i, a] of v) for (const [j, x] of rows[i]) u.set(j, (u.get(j) ?? ZERO).plus(a.times(x)));
  return u;
}
const square = (q) => q.times(q);

function phi(loss, m) {
  const short = ONE.minus(m);
  if (loss[0] === "logistic") return logistic(m);
  if (short.sign <= 0) return ZERO;
  if (loss[0] === "hinge") return short;
  if (loss[0] === "squared_hinge") return square(short);
  const delta = loss[1];
  return short.compare(delta) < 0 ? square(short).over(TWO.times(delta)) : short.minus(delta.over(TWO));
}
function psi(loss, b) {
  if (loss[0] === "logistic") return entropy(b);
  if (loss[0] === "hinge") return b;
  if (loss[0] === "squared_hinge") return b.minus(square(b).over(integer(4)));
  return b.minus(loss[1].times(square(b)).over(TWO));
}

// ------------------------------------------------------------------------------------------------------------- P and D

function binary(p, data) {
  const places = [];
  data.kinds.forEach((kind, i) => { if (kind === p.plus || p.minus === null || kind === p.minus) places.push(i); });
  const rows = places.map((i) => data.rows[i]), n = rows.length;
  const y = places.map((i) => integer(data.kinds[i] === p.plus ? 1 : -1));
  must(p.c.length === n && n > 0, "the number of weights");
  const beta = new Map(p.beta[0]), v = new Map();
  for (const [i, b] of beta) {
    must(i < n, "beta beyond the rows");
    v.set(i, p.c[i].times(b).times(y[i]));
  }
  if (p.balance !== null) {
    must(p.balance.length === 1 && p.balance[0] < n && p.c[p.balance[0]].sign > 0, "the balance row");
    const k = p.balance[0];
    v.delete(k);
    v.set(k, ZERO.minus(sum([...v.values()])));
    beta.set(k, v.get(k).times(y[k]).over(p.c[k]));
  }
  for (const b of beta.values()) must(b.sign >= 0 && (p.loss[0] === "squared_hinge" || b.compare(ONE) <= 0), "beta is out of bounds");
  const balance = sum([...v.values()]);
  if (p.intercept[0] === "free") must(balance.sign === 0, "the sum of c beta y is not zero");

  const parts = p.kernel[0] === "none" ? withoutKernel(p, rows, v) : withKernel(p, data, places, rows, v);
  let P = parts.R, D = ZERO.minus(parts.conjugate);
  for (let i = 0; i < n; i += 1) {
    if (p.c[i].sign === 0) continue;
    const m = y[i].times(parts.scores[i].plus(p.bias[0])).minus(parts.error);
    P = P.plus(p.c[i].times(phi(p.loss, m)));
  }
  for (const [i, b] of beta) D = D.plus(p.c[i].times(psi(p.loss, b)));
  if (p.intercept[0] === "penalised") {
    const scale = p.intercept[1];
    P = P.plus(p.l2.over(TWO).times(square(p.bias[0].over(scale))));
    D = D.minus(square(scale.times(balance)).over(TWO.times(p.l2)));
  }
  return [P, D];
}

function withoutKernel(p, rows, v) {
  const w = p.coef[0], u = combine(rows, v);
  const scores = rows.map((x) => inner(x, w));
  const values = [...w.values()];
  const R = p.l1.times(sum(values.map((q) => q.size))).plus(p.l2.over(TWO).times(sum(values.map(square))));
  let conjugate = ZERO;
  for (const value of u.values()) {
    const beyond = value.size.minus(p.l1);
    if (beyond.sign <= 0) continue;
    must(p.l2.sign > 0, "|u| is above l1 and l2 is 0");
    conjugate = conjugate.plus(square(beyond).over(TWO.times(p.l2)));
  }
  return { scores, error: ZERO, R, conjugate };
}

function withKernel(p, data, places, rows, v) {
  const n = rows.length, [name, gamma, r, degree] = p.kernel;
  let error = ZERO;
  let k = (i, j) => inner(rows[i], rows[j]);
  if (name === "poly") {
    k = (i, j) => {
      const base = gamma.times(inner(rows[i], rows[j])).plus(r);
      let power = ONE;
      for (let g = degree.floor(0n); g > 0n; g -= 1n) power = power.times(base);
      return power;
    };
  } else if (name === "rbf") {
    error = MARGIN;
    k = (i, j) => {
      const distance = inner(rows[i], rows[i]).plus(inner(rows[j], rows[j])).minus(TWO.times(inner(rows[i], rows[j])));
      return new Q(expOfNegative(gamma.times(distance).floor(F)), UNIT);
    };
  } else if (name === "precomputed") {
    must(data.n === data.d, "a kernel matrix is square");
    k = (i, j) => rows[i].get(places[j]) ?? ZERO;
    for (let i = 0; i < n; i += 1) for (let j = 0; j < i; j += 1) must(k(i, j).compare(k(j, i)) === 0, "the kernel matrix is not symmetric");
  }
  const values = new Map(), compute = k;
  k = (i, j) => {
    const key = i * n + j;
    if (!values.has(key)) values.set(key, compute(i, j));
    return values.get(key);
  };
  const a = p.coef[0];
  for (const j of a.keys()) must(j < n, "coef beyond the rows");
  const scores = rows.map((_, i) => sum([...a].map(([j, value]) => value.times(k(i, j)))));
  const aSize = sum([...a.values()].map((q) => q.size)), vSize = sum([...v.values()].map((q) => q.size));
  const aKa = sum([...a].map(([i, value]) => value.times(scores[i]))).plus(square(aSize).times(error));
  const vKv = sum([...v].flatMap(([i, x]) => [...v].map(([j, z]) => x.times(z).times(k(i, j))))).plus(square(vSize).times(error));
  return { scores, error: aSize.times(error), R: p.l2.over(TWO).times(aKa), conjugate: vKv.over(TWO.times(p.l2)) };
}

function joint(p, data) {
  const { rows, kinds } = data, K = p.coef.length, n = rows.length;
  must(p.c.length === n, "the number of weights");
  const f = p.beta.map((column, k) => {
    const flow = new Map();
    for (const [i, value] of column) {
      must(i < n && kinds[i] !== k, "p of a row's own class");
      flow.set(i, p.c[i].times(value));
    }
    return flow;
  });
  const excess = (k) => {
    let e = ZERO;
    f.forEach((flow, l) => { for (const [i, value] of flow) if (kinds[i] === k) e = e.plus(value); else if (l === k) e = e.minus(value); });
    return e;
  };
  if (p.balance !== null) {
    const [hub, ...chosen] = p.balance;
    must(chosen.length === K && hub < K, "the balance rows");
    for (let k = 0; k < K; k += 1) {
      if (k === hub) continue;
      const row = chosen[k];
      must(row < n && (kinds[row] === k || kinds[row] === hub) && p.c[row].sign > 0, "a balance row");
      const gives = kinds[row] === k, to = gives ? hub : k;
      f[to].delete(row);
      const e = excess(k);
      f[to].set(row, gives ? ZERO.minus(e) : e);
    }
  }
  if (p.intercept[0] === "free") for (let k = 0; k < K; k += 1) must(excess(k).sign === 0, "the classes are out of balance");
  const given = rows.map(() => ZERO);
  for (const flow of f) for (const [i, value] of flow) {
    must(value.sign >= 0, "a negative p");
    given[i] = given[i].plus(value);
  }
  given.forEach((value, i) => must(value.compare(p.c[i]) <= 0, "p adds up to more than 1"));

  let P = ZERO, D = sum(given);
  for (let i = 0; i < n; i += 1) {
    const g = p.coef.map((w, k) => inner(rows[i], w).plus(p.bias[k]));
    const top = g.map((value, k) => (k === kinds[i] ? value : value.plus(ONE))).reduce(larger);
    P = P.plus(p.c[i].times(top.minus(g[kinds[i]])));
  }
  for (let k = 0; k < K; k += 1) {
    P = P.plus(p.l2.over(TWO).times(sum([...p.coef[k].values()].map(square))));
    const v = new Map();
    for (let i = 0; i < n; i += 1) if (kinds[i] === k) v.set(i, given[i]);
    for (const [i, value] of f[k]) v.set(i, ZERO.minus(value));
    D = D.minus(sum([...combine(rows, v).values()].map(square)).over(TWO.times(p.l2)));
    if (p.intercept[0] === "penalised") {
      P = P.plus(p.l2.over(TWO).times(square(p.bias[k].over(p.intercept[1]))));
      D = D.minus(square(p.intercept[1].times(sum([...v.values()]))).over(TWO.times(p.l2)));
    }
  }
  return [P, D];
}

function verdict(proofFile, dataFile) {
  try {
    const proof = readProof(readFileSync(proofFile)), bytes = readFileSync(dataFile);
    must(digest(bytes) === proof.data, "other data: the digest differs");
    const data = readData(bytes);
    must(data.n === proof.n && data.d === proof.d && data.classes === proof.labels.length, "data of another size");
    for (const p of proof.problems) {
      checkProblem(p);
      const [P, D] = (p.joint ? joint : binary)(p, data);
      must(P.minus(D).compare(p.gap) <= 0, `${p.title}: P - D is above the gap`);
    }
    return "verified";
  } catch (error) {
    if (error instanceof Refusal) return `refused: ${error.message}`;
    throw error;
  }
}

const files = process.argv.slice(2);
for (let i = 0; i + 1 < files.length; i += 2) console.log(verdict(files[i], files[i + 1]));
