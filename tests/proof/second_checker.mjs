// A second, independent checker of "dualgap-proof 1" files, written from the page "The proof format" alone.
//
//     node second_checker.mjs PROOF DATA [PROOF DATA ...]
//
// DATA is the canonical text of the data. One line is printed for each pair, `verified` or `refused: REASON`.
// The exit code is 0 if all pairs were verified, else 1.
//
// Arithmetic. All values are BigInt; JavaScript's Numbers serve only as small whole numbers (places, bit counts).
//   fixed   { v, bits }  a vector: the values v[i] / 2^bits, all over one common power of two
//   frac    { n, d }     a single exact fraction, d > 0, never reduced: there are only a few of them for each problem

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

class Refused extends Error {}
const need = (condition, reason) => { if (!condition) throw new Refused(reason); };

// ---------------------------------------------------------------------------------------------------------------------
// Text: lines, counts, numbers, entries, strings
// ---------------------------------------------------------------------------------------------------------------------

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

function readBytes(path, what) {
  try { return readFileSync(path); } catch { throw new Refused(`cannot read the ${what} file`); }
}

function splitLines(bytes, what) {
  const text = bytes.toString('latin1');                       // one character for each byte
  need(!/[^\x00-\x7f]/.test(text), `${what}: not ASCII`);
  need(text.endsWith('\n'), `${what}: the last line has no line feed`);
  return text.slice(0, -1).split('\n');
}

// A count has up to 18 digits. Long ones become BigInt; each value has one representation, and < compares both exactly.
function parseCount(word) {
  need(/^(?:0|[1-9][0-9]{0,17})$/.test(word), 'bad count');
  return word.length <= 15 ? Number(word) : BigInt(word);
}

// A number is { m, e }: m * 2^e with m odd, or zero. The pattern admits odd mantissas below 2^53 only.
const ZERO = { m: 0n, e: 0 };
const NUMBER = /^(-?)(1[0-9a-f]{13}|[1-9a-f][0-9a-f]{0,12})(?<=[13579bdf])p(0|-?[1-9][0-9]{0,3})$/;
function parseNumber(word) {
  if (word === '0') return ZERO;
  const found = NUMBER.exec(word);
  need(found, 'bad number');
  const m = BigInt('0x' + found[2]);
  const e = Number(found[3]);
  need(e >= -1074 && e < 1024 && (e <= 971 || m < 1n << BigInt(1024 - e)), 'number out of range');
  return { m: found[1] ? -m : m, e };
}

// Entries become { at: [places], number: [values] }.
function parseEntries(words, limit) {
  const at = [], number = [];
  let last = -1;
  for (const word of words) {
    const colon = word.indexOf(':');
    need(colon > 0, 'bad entry');
    const place = parseCount(word.slice(0, colon));
    const value = parseNumber(word.slice(colon + 1));
    need(place > last, 'places of entries do not rise');
    need(place < limit, 'place of an entry out of range');
    need(value !== ZERO, 'an entry is 0');
    at.push(last = place);
    number.push(value);
  }
  return { at, number };
}

function parseString(text) {
  need(/^"(?:[ !#-[\]-\x7f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"$/.test(text), 'bad string');
  return JSON.parse(text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Exact arithmetic: fixed vectors and fractions
// ---------------------------------------------------------------------------------------------------------------------

const abs = (x) => (x < 0n ? -x : x);
const shift = (x, k) => (k >= 0 ? x << BigInt(k) : x >> BigInt(-k));      // x * 2^k, rounded down
const zeros = (n) => new Array(n).fill(0n);

const bitsOf = (numbers) => numbers.reduce((bits, x) => Math.max(bits, -x.e), 0);
const mostBits = (lines) => lines.reduce((bits, entries) => Math.max(bits, bitsOf(entries.number)), 0);
const toFixed = (numbers, bits = bitsOf(numbers)) => ({ v: numbers.map((x) => shift(x.m, x.e + bits)), bits });
const rescale = ({ v, bits }, to) => (to === bits ? { v, bits } : { v: v.map((x) => shift(x, to - bits)), bits: to });

// The same for entries: a vector of length n with zeros at the other places.
function spread(entries, n, bits = bitsOf(entries.number)) {
  const v = zeros(n);
  entries.at.forEach((i, t) => { const x = entries.number[t]; v[i] = shift(x.m, x.e + bits); });
  return { v, bits };
}

const frac = (n, bits = 0) => ({ n, d: 1n << BigInt(bits) });             // n / 2^bits
const fracOf = ({ m, e }) => (e >= 0 ? frac(m << BigInt(e)) : frac(m, -e));
const add = (a, b) => (a.d === b.d ? { n: a.n + b.n, d: a.d } : { n: a.n * b.d + b.n * a.d, d: a.d * b.d });
const sub = (a, b) => add(a, { n: -b.n, d: b.d });
const mul = (a, b) => ({ n: a.n * b.n, d: a.d * b.d });
const div = (a, b) => ({ n: a.n * b.d, d: a.d * b.n });                   // for b > 0
const half = (a) => ({ n: a.n, d: 2n * a.d });
const square = (a) => mul(a, a);
const sumSquares = ({ v, bits }) => frac(v.reduce((s, x) => s + x * x, 0n), 2 * bits);

// ---------------------------------------------------------------------------------------------------------------------
// Logarithms and exponentials
//
// They are computed with W bits after the point. Arguments and intermediate values are at most 1 (logarithms: at most
// W log 2 < 111), and each step rounds by at most 1 unit of 2^-W. The errors, in units:
//   expNeg    4 table values, each made by at most 255 multiplications with a factor that is off by at most 50: below
//             4 * 255 * 51 < 2^16, and a few more for the last series and the products;
//   log1p     about 52 terms with an error of at most 4 each, doubled: below 2^9;
//   log       the same, and at most W times the error of log 2: below 2^17;
//   entropy   two of them, times factors that add to 1, and 2^8 for the rounding of beta (|H(p) - H(q)| <= H(|p - q|)).
// So all are below 2^18 units. We allow 2^SLACK of them: 2^-140, where the page asks for 2^-100.
// ---------------------------------------------------------------------------------------------------------------------

const W = 160;
const SLACK = 20;
const w = BigInt(W);
const ONE = 1n << w;
const EPS = 1n << BigInt(SLACK);

function expSeries(r, terms) {                                 // e^-r for 0 <= r <= 1
  let sum = ONE;
  for (let k = BigInt(terms); k > 0n; k--) sum = ONE - ((r * sum) >> w) / k;
  return sum;
}

// tables[l][j] is e^-(j / 256^l), for the whole part of the argument and its first three bytes after the point.
const tables = [0, 1, 2, 3].map((l) => {
  const factor = expSeries(ONE >> BigInt(8 * l), 48);
  const table = [ONE];
  while (table.length < 256) table.push((table.at(-1) * factor) >> w);
  return table;
});

const LOW = (1n << (w - 24n)) - 1n;
function expNeg(t) {                                           // e^-t for t >= 0
  if (t >> w >= 128n) return 0n;                               // e^-128 < 2^-184
  const top = Number(t >> (w - 24n));                          // four bytes; what remains is below 2^-24
  let product = expSeries(t & LOW, 6);
  for (let l = 0; l < 4; l++) product = (product * tables[l][(top >> (24 - 8 * l)) & 255]) >> w;
  return product;
}

function log1p(z) {                                            // log(1 + z) = 2 artanh(z / (2 + z)) for 0 <= z <= 1
  const q = (z << w) / (2n * ONE + z);
  const qq = (q * q) >> w;
  let sum = 0n;
  for (let power = q, k = 1n; power > 0n; power = (power * qq) >> w, k += 2n) sum += power / k;
  return 2n * sum;
}

const LOG2 = log1p(ONE);
function log(z) {                                              // for 0 < z <= 1
  const k = W + 1 - z.toString(2).length;
  return log1p((z << BigInt(k)) - ONE) - BigInt(k) * LOG2;
}

// Upper bound of log(1 + e^-m) for m >= 0. For m < 0 the function is -m + the value at |m|.
const logisticUpper = (m) => log1p(expNeg(m)) + EPS;

// Lower bound of -p log p - (1 - p) log(1 - p) for 0 < p < 1, where p was rounded down to W bits.
function entropyLower(p) {
  if (p === 0n) return 0n;
  const value = (-(p * log(p) + (ONE - p) * log(ONE - p)) >> w) - EPS;
  return value > 0n ? value : 0n;
}

// ---------------------------------------------------------------------------------------------------------------------
// The data
// ---------------------------------------------------------------------------------------------------------------------

// Rows are { kind, at, x }: the class, or of a regression the targets, the columns and the values over 2^bits. Columns without any entry are dropped and
// the others are numbered anew, still in rising order; index maps the file's columns to them.
function parseData(bytes) {
  const lines = splitLines(bytes, 'data');
  need(lines[0] === 'dualgap-data 1', 'data: bad first line');
  const sizes = (lines[1] ?? '').split(' ').map(parseCount);
  need(sizes.length === 3, 'data: bad second line');
  const [n, columns, classes] = sizes;
  need(lines.length - 2 === n, 'data: wrong number of rows');

  const used = new Set();
  let bits = 0;
  const parsed = lines.slice(2).map((line) => {
    const words = line.split(' ');
    const first = words.shift();
    const kind = classes ? parseCount(first) : first.split(',').map(parseNumber);
    need(!classes || kind < classes, 'data: class out of range');
    const { at, number } = parseEntries(words, columns);
    for (const c of at) used.add(c);
    bits = Math.max(bits, bitsOf(number));
    return { kind, at, number };
  });
  need(classes || parsed.every(({ kind }) => kind.length === parsed[0].kind.length), 'data: another number of targets');
  const index = new Map([...used].sort((a, b) => (a < b ? -1 : 1)).map((c, k) => [c, k]));
  const rows = parsed.map(({ kind, at, number }) => (
    { kind, at: at.map((c) => index.get(c)), x: toFixed(number, bits).v }));
  return { n, columns, classes, rows, bits, index, width: index.size };
}

// X w for a vector w over the columns, and X^T v for a vector v over the rows.
function times(rows, vector) {
  return rows.map(({ at, x }) => {
    let sum = 0n;
    for (let t = 0; t < at.length; t++) if (vector[at[t]]) sum += x[t] * vector[at[t]];
    return sum;
  });
}

function transposeTimes(rows, vector, width) {
  const sum = zeros(width);
  rows.forEach(({ at, x }, i) => {
    if (vector[i]) for (let t = 0; t < at.length; t++) sum[at[t]] += x[t] * vector[i];
  });
  return sum;
}

// The entries of a `coef` line as a vector over the data's columns in use. The others meet only zeros.
function overColumns(entries, { index, width }, bits) {
  const v = zeros(width);
  entries.at.forEach((c, t) => {
    const x = entries.number[t];
    if (index.has(c)) v[index.get(c)] = shift(x.m, x.e + bits);
  });
  return v;
}

// ---------------------------------------------------------------------------------------------------------------------
// The proof: its lines
// ---------------------------------------------------------------------------------------------------------------------

// take(keyword) gives the words after the keyword of the next line.
function lineReader(lines) {
  let position = 0;
  const take = (keyword) => {
    const words = (lines[position++] ?? '').split(' ');
    need(words[0] === keyword, `no line "${keyword}" where it should be`);
    return words.slice(1);
  };
  const one = (keyword) => {
    const words = take(keyword);
    need(words.length === 1, `bad line "${keyword}"`);
    return words[0];
  };
  return {
    take, one,
    next: () => (lines[position] ?? '').split(' ')[0],
    nextLine: () => lines[position] ?? '',
    count: (keyword) => parseCount(one(keyword)),
    number: (keyword) => parseNumber(one(keyword)),
    string: (keyword) => parseString(take(keyword).join(' ')),
    atEnd: () => position === lines.length,
  };
}

const HEAD = 'dualgap-proof 1\nsha256 ';
function openProof(bytes) {
  const bodyStart = HEAD.length + 65;
  const head = bytes.toString('latin1', 0, bodyStart);
  need(head.startsWith(HEAD), 'proof: bad first lines');
  need(/^[0-9a-f]{64}\n$/.test(head.slice(HEAD.length)), 'proof: bad sha256 line');
  const body = bytes.subarray(bodyStart);
  need(sha256(body) === head.slice(HEAD.length, -1), 'proof: the sha256 of line 2 does not match');
  return lineReader(splitLines(body, 'proof'));
}

function checkProof(proofBytes, dataBytes) {
  const file = openProof(proofBytes);

  const digest = file.one('data');
  need(/^[0-9a-f]{64}$/.test(digest), 'bad digest of the data');
  need(sha256(dataBytes) === digest, 'other data: the digest does not match');
  const data = parseData(dataBytes);
  need(file.count('rows') === data.n, 'the number of rows differs from the data');
  need(file.count('columns') === data.columns, 'the number of columns differs from the data');
  const classes = file.count('classes');
  need(classes === data.classes, 'the number of classes differs from the data');
  need(classes !== 1, 'only 1 class');

  const labels = new Set();
  for (let k = 0; k < classes; k++) {
    const label = file.take('class').join(' ');
    const key = label.startsWith('"') ? '"' + parseString(label) : (parseNumber(label), label);
    need(!labels.has(key), 'two classes have the same label');
    labels.add(key);
  }
  file.string('maker');
  const steps = file.count('preparation');
  for (let k = 0; k < steps; k++) file.string('step');

  const count = file.count('problems');
  need(count >= 1, 'no problems');
  const problems = [];
  for (let k = 0; k < count; k++) problems.push(parseProblem(file, data));
  need(file.take('end').length === 0, 'bad line "end"');
  need(file.atEnd(), 'there is more after the line "end"');

  problems.forEach((problem, k) => {
    const excess = problem.loss.name === 'crammer_singer' ? crammerSinger(problem, data) : binary(problem, data);
    need(sub(excess, fracOf(problem.gap)).n <= 0n, `problem ${k + 1}: P - D is above the gap`);
  });
}

// A line with a choice, such as `loss smooth_hinge 1p-1`: `choices` says how many numbers each word takes.
function parseChoice(file, keyword, choices) {
  const [name, ...words] = file.take(keyword);
  need(Object.hasOwn(choices, name) && words.length === choices[name], `bad line "${keyword}"`);
  return { name, numbers: words.map(parseNumber) };
}

function parseProblem(file, data) {
  file.string('problem');

  const sides = file.take('sides');
  const all = sides.length === 1 && sides[0] === 'all';
  let positive, negative = null, target = null;                // negative is null for all other classes
  if (sides[0] === 'target') {
    need(sides.length === 2, 'bad line "sides"');
    target = parseCount(sides[1]);
    need(data.classes === 0 && data.rows.every(({ kind }) => target < kind.length), 'the target does not exist');
  } else if (!all) {
    need(sides.length === 2, 'bad line "sides"');
    positive = parseCount(sides[0]);
    if (sides[1] !== 'rest') negative = parseCount(sides[1]);
    need(positive < data.classes && (negative === null || negative < data.classes), 'class of a side out of range');
    need(positive !== negative, 'both sides are the same class');
  }

  const loss = parseLoss(file);
  const several = loss.name === 'crammer_singer';
  need(several === all && (loss.name === 'residual') === (target !== null), 'sides and loss do not fit');
  need(!several || data.classes >= 2, 'there are no classes');

  const l2 = file.number('l2');
  const l1 = file.number('l1');
  need(l2.m >= 0n && l1.m >= 0n, 'negative penalty');
  need(l2.m > 0n || l1.m > 0n, 'l1 and l2 are both 0');
  const bounds = file.next() === 'low' ? { low: parseEnds(file, 'low', data), high: parseEnds(file, 'high', data) } : null;
  need(!bounds || (l2.m > 0n && !several), 'bounds need l2 > 0 and a loss of two sides');

  const intercept = parseChoice(file, 'intercept', { none: 0, free: 0, penalised: 1 });
  need(intercept.numbers.every((x) => x.m > 0n), 'the scale of the intercept is not positive');
  need(intercept.name !== 'penalised' || l2.m > 0n, 'a penalised intercept needs l2 > 0');

  const kernel = parseChoice(file, 'kernel', { none: 0, linear: 0, poly: 3, rbf: 1, precomputed: 0 });
  need(kernel.name === 'none' || l1.m === 0n, 'a kernel needs l1 = 0');
  need(kernel.name === 'none' || !bounds, 'a kernel takes no bounds');
  need(kernel.numbers.length === 0 || kernel.numbers[0].m > 0n, 'gamma is not positive');
  if (kernel.name === 'poly') {
    const [, r, degree] = kernel.numbers;
    need(r.m >= 0n, 'r is negative');
    need(degree.m >= 0n && degree.e >= 0 && degree.e < 7 && shift(degree.m, degree.e) <= 100n, 'bad degree');
  }
  need(kernel.name !== 'precomputed' || data.columns === data.n, 'kernel values are not a square matrix');
  need(!several || (l1.m === 0n && kernel.name === 'none'), 'crammer_singer needs l1 = 0 and no kernel');

  const gap = file.number('gap');
  need(gap.m >= 0n, 'the gap is negative');

  // The rows of the problem: their places in the data.
  const places = [...data.rows.keys()].filter((i) => (
    all || target !== null || negative === null || data.rows[i].kind === positive || data.rows[i].kind === negative));
  const n = places.length;
  need(n > 0, 'a problem has no rows');

  const weights = parseWeights(file.take('weights'), n);
  const lines = several ? data.classes : 1;
  const repeat = (keyword, limit) => Array.from({ length: lines }, () => parseEntries(file.take(keyword), limit));

  const coef = repeat('coef', kernel.name === 'none' ? data.columns : n);
  const bias = file.take('bias').map(parseNumber);
  need(bias.length === lines, 'bad line "bias"');
  need(intercept.name !== 'none' || bias.every((b) => b === ZERO), 'a bias without an intercept');

  let balance = file.take('balance');
  if (balance.length === 1 && balance[0] === 'none') balance = null;
  else {
    balance = balance.map(parseCount);
    need(balance.length === (several ? 1 + lines : 1), 'bad line "balance"');
    need(intercept.name === 'free', 'balance without a free intercept');
  }
  const beta = repeat('beta', n);
  if (bounds) checkBounds(bounds, coef[0]);
  return { positive, target, loss, l2, l1, bounds, intercept, kernel, gap, places, weights, coef, bias, balance, beta };
}

// The loss; of `residual` epsilon, delta and the slopes below and above the target, null where there is no limit.
function parseLoss(file) {
  if (!file.nextLine().startsWith('loss residual')) {
    const loss = parseChoice(file, 'loss', { hinge: 0, smooth_hinge: 1, squared_hinge: 0, logistic: 0, crammer_singer: 0 });
    need(loss.numbers.every((x) => x.m > 0n), 'delta is not positive');
    return loss;
  }
  const [name, ...words] = file.take('loss');
  need(name === 'residual' && words.length === 4, 'bad line "loss"');
  const [epsilon, delta] = words.slice(0, 2).map(parseNumber);
  const slopes = words.slice(2).map((word) => (word === 'none' ? null : parseNumber(word)));
  need([epsilon, delta, ...slopes].every((x) => x === null || x.m >= 0n), 'a number of the loss is negative');
  need(delta.m > 0n || !slopes.includes(null), 'no limit of the slope and no delta');
  return { name, epsilon, delta, slopes };
}

// Ends of the intervals of all coefficients: fractions, or null where there is no such bound.
function parseEnds(file, keyword, { columns }) {
  const ends = [];
  for (const word of file.take(keyword)) {
    const star = word.indexOf('*');
    const run = star < 0 ? 1 : parseCount(word.slice(0, star));
    const text = word.slice(star + 1);
    const end = text === 'none' ? null : fracOf(parseNumber(text));
    need(run <= columns - ends.length, 'too many bounds');
    for (let k = 0; k < run; k++) ends.push(end);
  }
  need(ends.length === columns, 'too few bounds');
  return ends;
}

const inside = (w, low, high) => (low === null || sub(w, low).n >= 0n) && (high === null || sub(high, w).n >= 0n);

function checkBounds({ low, high }, coef) {
  const given = new Map(coef.at.map((j, t) => [j, fracOf(coef.number[t])]));
  low.forEach((end, j) => {
    need(end === null || inside(end, null, high[j]), 'bounds exclude each other');
    need(inside(given.get(j) ?? frac(0n), end, high[j]), 'a coefficient is beyond its bounds');
  });
}

function parseWeights(words, n) {
  const weights = [];
  for (const word of words) {
    const star = word.indexOf('*');
    const run = star < 0 ? 1 : parseCount(word.slice(0, star));
    const weight = parseNumber(word.slice(star + 1));
    need(weight.m >= 0n, 'a weight is negative');
    need(run <= n - weights.length, 'too many weights');
    for (let k = 0; k < run; k++) weights.push(weight);
  }
  need(weights.length === n, 'too few weights');
  return weights;
}

// ---------------------------------------------------------------------------------------------------------------------
// What to compute: problems with two sides. The result is P - D (an upper bound of it for logistic and rbf).
// ---------------------------------------------------------------------------------------------------------------------

function binary(problem, data) {
  const rows = problem.places.map((i) => data.rows[i]);
  const regression = problem.target !== null;
  const y = rows.map((row) => (regression || row.kind === problem.positive ? 1n : -1n));
  const targets = toFixed(regression ? rows.map((row) => row.kind[problem.target]) : rows.map(() => ZERO));
  const l2 = fracOf(problem.l2);
  const c = toFixed(problem.weights);
  const dual = dualPoint(problem, c, y);
  const v = { v: dual.t.v.map((t, i) => t * y[i]), bits: dual.t.bits };
  const vSum = v.v.reduce((s, x) => s + x, 0n);
  need(problem.intercept.name !== 'free' || vSum === 0n, 'the sum of v is not 0');

  const { s, error, R, Rstar } = KERNELS[problem.kernel.name](problem, data, rows, v);

  // Lower bounds of the margins: m = y (s + b - t) - error. For residual the upper ones are 2 error above.
  const b = problem.bias[0];
  const bits = Math.max(s.bits, targets.bits, -b.e);
  const bFixed = shift(b.m, b.e + bits);
  const tFixed = rescale(targets, bits).v;
  const m = { v: rescale(s, bits).v.map((x, i) => y[i] * (x + bFixed - tFixed[i])), bits };
  const off = error ? rescale(error, bits).v : zeros(m.v.length);
  off.forEach((x, i) => { m.v[i] -= x; });

  const losses = regression ? residualLoss(problem.loss, c, m, off) : primalLoss(problem.loss, c, m);
  let P = add(losses, R);
  let D = sub(regression ? residualDual(problem.loss, c, dual, targets) : dualLoss(problem.loss, c, dual), Rstar);
  if (problem.intercept.name === 'penalised') {
    const sigma = fracOf(problem.intercept.numbers[0]);
    P = add(P, mul(half(l2), square(div(fracOf(b), sigma))));
    D = sub(D, half(div(square(mul(sigma, frac(vSum, v.bits))), l2)));
  }
  return sub(P, D);
}

// Balance row, and the first condition of Feasible. Gives beta, and t = c beta = v y; at the balance row only t is valid.
function dualPoint({ beta: [entries], balance, loss }, c, y) {
  const n = y.length;
  const beta = spread(entries, n);
  const k = balance ? balance[0] : -1;
  if (balance) {
    need(k < n, 'the balance row does not exist');
    need(c.v[k] > 0n, 'the balance row has no weight');
    beta.v[k] = 0n;
  }
  const t = { v: c.v.map((x, i) => x * beta.v[i]), bits: c.bits + beta.bits };
  if (balance) t.v[k] = -y[k] * t.v.reduce((s, x, i) => s + x * y[i], 0n);

  const one = 1n << BigInt(beta.bits);
  for (let i = 0; i < n; i++) {
    const [value, top] = i === k ? [t.v[k], c.v[k] * one] : [beta.v[i], one];
    if (loss.name === 'residual') {
      const [below, above] = loss.slopes;
      need(atMost(-value, below, top) && atMost(value, above, top), 'a beta is beyond its bounds');
      continue;
    }
    need(value >= 0n, 'a beta is negative');
    need(value <= top || loss.name === 'squared_hinge', 'a beta is above 1');
  }
  return { beta, t, k };
}

// Whether value <= slope * top; null is no bound.
function atMost(value, slope, top) {
  return slope === null || shift(value, Math.max(0, -slope.e)) <= shift(slope.m * top, Math.max(0, slope.e));
}

// The sum of c phi over residuals between m and m + 2 off, where phi is largest at an end: it is convex.
function residualLoss({ epsilon, delta, slopes }, c, m, off) {
  const [eps, width] = [fracOf(epsilon), fracOf(delta)];
  const value = (r) => {                                       // phi(r), r over 2^m.bits
    const excess = sub(frac(abs(r), m.bits), eps);
    if (excess.n <= 0n) return frac(0n);
    const slope = slopes[r < 0n ? 1 : 0];
    const whole = slope === null ? null : mul(width, fracOf(slope));
    if (whole === null || sub(excess, whole).n < 0n) return half(div(square(excess), width));
    return mul(fracOf(slope), sub(excess, half(whole)));
  };
  const sums = new Map();                                      // by denominator: there are few of them
  m.v.forEach((r, i) => {
    if (c.v[i] === 0n) return;
    const [low, high] = [value(r), value(r + 2n * off[i])];
    const { n, d } = sub(high, low).n > 0n ? high : low;
    sums.set(d, (sums.get(d) ?? 0n) + c.v[i] * n);
  });
  const total = [...sums].map(([d, n]) => ({ n, d })).reduce(add, frac(0n));
  return mul(total, frac(1n, c.bits));
}

// The sum of c (psi(beta) + beta t): c beta t - epsilon c |beta| - delta/2 c beta^2, at the balance row by t^2 / c.
function residualDual({ epsilon, delta }, c, { beta, t, k }, targets) {
  const sum = (of) => t.v.reduce((s, x, i) => s + of(x, i), 0n);
  const gain = frac(sum((x, i) => x * targets.v[i]), t.bits + targets.bits);
  const size = frac(sum(abs), t.bits);
  let squares = frac(sum((x, i) => (i === k ? 0n : x * beta.v[i])), t.bits + beta.bits);
  if (k >= 0) squares = add(squares, div(frac(t.v[k] * t.v[k], 2 * t.bits), frac(c.v[k], c.bits)));
  return sub(sub(gain, mul(fracOf(epsilon), size)), half(mul(fracOf(delta), squares)));
}

// The sum of c phi(m).
function primalLoss({ name, numbers }, c, m) {
  if (name === 'logistic') return primalLogistic(c, m);
  const bits = name === 'smooth_hinge' ? Math.max(m.bits, -numbers[0].e) : m.bits;
  const one = 1n << BigInt(bits);
  const delta = name === 'smooth_hinge' ? shift(numbers[0].m, numbers[0].e + bits) : 0n;
  let linear = 0n, quadratic = 0n, doubled = 0n;               // sums of c z, of c z^2, and of c (2 z - delta)
  rescale(m, bits).v.forEach((margin, i) => {
    const z = one - margin;
    if (z <= 0n || c.v[i] === 0n) return;
    if (name === 'hinge') linear += c.v[i] * z;
    else if (name === 'squared_hinge' || z < delta) quadratic += c.v[i] * z * z;
    else doubled += c.v[i] * (2n * z - delta);
  });
  if (name === 'hinge') return frac(linear, c.bits + bits);
  const squares = frac(quadratic, c.bits + 2 * bits);
  if (name === 'squared_hinge') return squares;
  return half(add(div(squares, fracOf(numbers[0])), frac(doubled, c.bits + bits)));
}

function primalLogistic(c, m) {
  let linear = 0n, rest = 0n;                                  // sums of c |m| over m < 0, and of c log(1 + e^-|m|)
  m.v.forEach((margin, i) => {
    if (c.v[i] === 0n) return;
    if (margin < 0n) linear -= c.v[i] * margin;
    rest += c.v[i] * logisticUpper(shift(abs(margin), W - m.bits));
  });
  return add(frac(linear, c.bits + m.bits), frac(rest, c.bits + W));
}

// The sum of c psi(beta).
function dualLoss({ name, numbers }, c, { beta, t, k }) {
  if (name === 'logistic') return dualLogistic(c, beta, t, k);
  const total = frac(t.v.reduce((s, x) => s + x, 0n), t.bits);
  if (name === 'hinge') return total;
  // The sum of c beta^2: at the balance row it is t^2 / c.
  let squares = frac(t.v.reduce((s, x, i) => (i === k ? s : s + x * beta.v[i]), 0n), t.bits + beta.bits);
  if (k >= 0) squares = add(squares, div(frac(t.v[k] * t.v[k], 2 * t.bits), frac(c.v[k], c.bits)));
  const factor = name === 'squared_hinge' ? frac(1n, 2) : half(fracOf(numbers[0]));
  return sub(total, mul(factor, squares));
}

function dualLogistic(c, beta, t, k) {
  const one = 1n << BigInt(beta.bits);
  const sum = c.v.reduce((s, ci, i) => {
    const [value, top] = i === k ? [t.v[k], ci * one] : [beta.v[i], one];
    if (ci === 0n || value === 0n || value === top) return s;
    return s + ci * entropyLower((value << w) / top);
  }, 0n);
  return frac(sum, c.bits + W);
}

// ---------------------------------------------------------------------------------------------------------------------
// What to compute: scores s, R and R* for each kernel (for rbf also a bound `error` of |s - true s|)
// ---------------------------------------------------------------------------------------------------------------------

const KERNELS = {
  none(problem, data, rows, v) {
    const bits = bitsOf(problem.coef[0].number);
    const s = { v: times(rows, overColumns(problem.coef[0], data, bits)), bits: data.bits + bits };
    return { s, ...linearPenalties(problem, data, rows, v, toFixed(problem.coef[0].number, bits)) };
  },

  // The same with w = X^T a.
  linear(problem, data, rows, v) {
    const a = spread(problem.coef[0], rows.length);
    const vector = { v: transposeTimes(rows, a.v, data.width), bits: a.bits + data.bits };
    const s = { v: times(rows, vector.v), bits: vector.bits + data.bits };
    return { s, ...linearPenalties(problem, data, rows, v, vector) };
  },

  precomputed(problem, data, rows, v) {
    const column = problem.places.map((i) => data.index.get(i));          // undefined for a column of zeros
    checkSymmetric(rows, column);
    const product = ({ v: values, bits }) => {
      const vector = zeros(data.width);
      values.forEach((x, j) => { if (column[j] !== undefined) vector[column[j]] = x; });
      return { v: times(rows, vector), bits: bits + data.bits };
    };
    const a = spread(problem.coef[0], rows.length);
    const s = product(a);
    return { s, ...quadraticPenalties(problem, dot(a, s), dot(v, product(v))) };
  },

  poly(problem, data, rows, v) {
    const [gamma, r, degree] = problem.kernel.numbers;
    const bits = Math.max(2 * data.bits - gamma.e, -r.e, 0);              // of gamma x.z + r
    const gammaFixed = shift(gamma.m, bits - 2 * data.bits + gamma.e);
    const rFixed = shift(r.m, r.e + bits);
    const power = shift(degree.m, degree.e);
    const k = (xz) => (gammaFixed * xz + rFixed) ** power;
    return pairwise(problem, data, rows, v, k, bits * Number(power), false);
  },

  rbf(problem, data, rows, v) {
    const [gamma] = problem.kernel.numbers;
    const move = W + gamma.e - 2 * data.bits;
    const k = (xz, xx, zz) => expNeg(shift(gamma.m * (xx + zz - 2n * xz), move));
    return pairwise(problem, data, rows, v, k, W, true);
  },
};

const dot = (a, b) => frac(a.v.reduce((s, x, i) => (x ? s + x * b.v[i] : s), 0n), a.bits + b.bits);

// R = l2/2 a'Ka and R* = v'Kv / (2 l2).
function quadraticPenalties({ l2 }, aKa, vKv) {
  return { R: half(mul(fracOf(l2), aKa)), Rstar: half(div(vKv, fracOf(l2))) };
}

// R and R* of the kernel `none`, and the last condition of Feasible.
function linearPenalties({ l1, l2, bounds }, data, rows, v, coefficients) {
  const absolute = frac(coefficients.v.reduce((s, x) => s + abs(x), 0n), coefficients.bits);
  const R = add(mul(fracOf(l1), absolute), half(mul(fracOf(l2), sumSquares(coefficients))));

  let u = { v: transposeTimes(rows, v.v, data.width), bits: v.bits + data.bits };
  if (bounds) return { R, Rstar: boundedConjugate(fracOf(l1), fracOf(l2), bounds, data, u) };
  u = rescale(u, Math.max(u.bits, -l1.e));
  const limit = shift(l1.m, l1.e + u.bits);
  const above = u.v.map((x) => abs(x) - limit).filter((x) => x > 0n);
  if (l2.m > 0n) return { R, Rstar: half(div(sumSquares({ v: above, bits: u.bits }), fracOf(l2))) };
  need(above.length === 0, 'some |u| is above l1');
  return { R, Rstar: frac(0n) };
}

// R* with bounds: of each column the largest of u w - l1 |w| - l2/2 w^2 at the two ends and, if it is inside, at soft(u, l1) / l2.
function boundedConjugate(l1, l2, { low, high }, data, u) {
  let exact = frac(0n), squares = frac(0n);                    // powers of two below, and what is still to be divided by 2 l2
  const plus = (a, b) => (a.d >= b.d ? { n: a.n + b.n * (a.d / b.d), d: a.d } : plus(b, a));
  low.forEach((least, j) => {
    const most = high[j];
    const place = data.index.get(j);
    const uj = frac(place === undefined ? 0n : u.v[place], u.bits);
    const size = { n: abs(uj.n), d: uj.d };
    const over = sub(size, l1);                                // |u| - l1
    const beyond = over.n > 0n ? over : frac(0n);
    const best = div({ n: uj.n < 0n ? -beyond.n : beyond.n, d: beyond.d }, l2);
    if (inside(best, least, most)) squares = plus(squares, square(beyond));
    else {
      const at = (w) => sub(sub(mul(uj, w), mul(l1, { n: abs(w.n), d: w.d })), half(mul(l2, square(w))));
      const values = [least, most].filter((w) => w !== null).map(at);
      exact = plus(exact, values.reduce((a, b) => (sub(b, a).n > 0n ? b : a)));
    }
  });
  return add(exact, half(div(squares, l2)));
}

function checkSymmetric(rows, column) {
  const rowOf = new Map(column.map((c, i) => [c, i]));
  rows.forEach(({ at, x }, i) => at.forEach((c, t) => {
    const j = rowOf.get(c);
    if (j !== undefined) need(valueAt(rows[j], column[i]) === x[t], 'the kernel values are not symmetric');
  }));
}

function valueAt({ at, x }, column) {
  if (column === undefined) return 0n;
  let low = 0, high = at.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at[middle] < column) low = middle + 1; else high = middle;
  }
  return at[low] === column ? x[low] : 0n;
}

// Kernels that need all pairs: k(x.z, x.x, z.z) over 2^kBits. If it is inexact, each value is off by at most
// 2^SLACK units, except for equal rows, where it is exact.
function pairwise(problem, data, rows, v, k, kBits, inexact) {
  const n = rows.length;
  const a = spread(problem.coef[0], n);
  const s = zeros(n), sError = zeros(n);                       // K a, and the sum of |a| over the inexact values
  const q = zeros(n), qError = zeros(n);                       // the same for v'Kv = sum of v q: pairs are taken twice
  const norms = rows.map(({ x }) => x.reduce((sum, t) => sum + t * t, 0n));
  const current = zeros(data.width);                           // row i, with all columns

  for (let i = 0; i < n; i++) {
    rows[i].at.forEach((c, t) => { current[c] = rows[i].x[t]; });
    for (let j = 0; j <= i; j++) {
      const pairV = v.v[i] && v.v[j];
      if (!a.v[i] && !a.v[j] && !pairV) continue;
      const { at, x } = rows[j];
      let xz = 0n;
      for (let t = 0; t < at.length; t++) if (current[at[t]]) xz += x[t] * current[at[t]];
      const value = k(xz, norms[i], norms[j]);
      const off = inexact && norms[i] + norms[j] !== 2n * xz;

      if (a.v[j]) s[i] += a.v[j] * value;
      if (a.v[i] && i !== j) s[j] += a.v[i] * value;
      if (pairV) q[i] += (i === j ? v.v[j] : 2n * v.v[j]) * value;
      if (off) {                                               // then i !== j
        sError[i] += abs(a.v[j]);
        sError[j] += abs(a.v[i]);
        if (pairV) qError[i] += 2n * abs(v.v[j]);
      }
    }
    for (const c of rows[i].at) current[c] = 0n;
  }

  const scores = { v: s, bits: a.bits + kBits };
  const aKa = dot(a, scores);
  const vKv = dot(v, { v: q, bits: v.bits + kBits });
  if (!inexact) return { s: scores, ...quadraticPenalties(problem, aKa, vKv) };

  const bounds = (sums, bits) => ({ v: sums.map((x) => x << BigInt(SLACK)), bits: bits + kBits });
  const magnitudes = ({ v: values, bits }) => ({ v: values.map(abs), bits });
  const error = bounds(sError, a.bits);
  return {
    s: scores, error,
    ...quadraticPenalties(problem, add(aKa, dot(magnitudes(a), error)),
      add(vKv, dot(magnitudes(v), bounds(qError, v.bits)))),
  };
}

// ---------------------------------------------------------------------------------------------------------------------
// Crammer and Singer's problem. The result is P - D.
// ---------------------------------------------------------------------------------------------------------------------

function crammerSinger(problem, data) {
  const { rows, classes: K } = data;
  const c = toFixed(problem.weights);
  const l2 = fracOf(problem.l2);
  const { f, fBits, excess } = flows(problem, data, c);

  // Feasible.
  const rowSums = f.map((flow) => {
    let sum = 0n;
    for (const x of flow.values()) { need(x >= 0n, 'an f is negative'); sum += x; }
    return sum;
  });
  rowSums.forEach((sum, i) => need(sum <= shift(c.v[i], fBits - c.bits), 'a row has more than its weight'));
  need(problem.intercept.name !== 'free' || excess.every((x) => x === 0n), 'an excess is not 0');

  // P: class after class, the best of [k != kappa] + g and the g of the row's own class.
  const wBits = mostBits(problem.coef);
  const gBits = Math.max(wBits + data.bits, bitsOf(problem.bias));
  const one = 1n << BigInt(gBits);
  const best = new Array(data.n).fill(null), own = zeros(data.n);
  let wSquares = 0n;
  problem.coef.forEach((entries, k) => {
    for (const x of toFixed(entries.number, wBits).v) wSquares += x * x;
    const bias = shift(problem.bias[k].m, problem.bias[k].e + gBits);
    times(rows, overColumns(entries, data, wBits)).forEach((score, i) => {
      let g = shift(score, gBits - wBits - data.bits) + bias;
      if (rows[i].kind === k) own[i] = g; else g += one;
      if (best[i] === null || g > best[i]) best[i] = g;
    });
  });
  const loss = c.v.reduce((s, x, i) => s + x * (best[i] - own[i]), 0n);
  let P = add(frac(loss, c.bits + gBits), half(mul(l2, frac(wSquares, 2 * wBits))));

  // D: class after class, u = X^T v.
  const flowsInto = Array.from({ length: K }, () => []);
  f.forEach((flow, i) => flow.forEach((x, k) => flowsInto[k].push([i, x])));
  const members = Array.from({ length: K }, () => []);
  rows.forEach((row, i) => members[row.kind].push(i));
  let uSquares = 0n;
  for (let k = 0; k < K; k++) {
    const v = zeros(data.n);
    for (const i of members[k]) v[i] = rowSums[i];
    for (const [i, x] of flowsInto[k]) v[i] = -x;
    for (const x of transposeTimes(rows, v, data.width)) uSquares += x * x;
  }
  const total = rowSums.reduce((s, x) => s + x, 0n);
  let D = sub(frac(total, fBits), half(div(frac(uSquares, 2 * (fBits + data.bits)), l2)));

  // The sum of v over the rows is the excess of the class.
  if (problem.intercept.name === 'penalised') {
    const sigma2 = square(fracOf(problem.intercept.numbers[0]));
    P = add(P, half(div(mul(l2, sumSquares(toFixed(problem.bias))), sigma2)));
    D = sub(D, half(div(mul(sigma2, sumSquares({ v: excess, bits: fBits })), l2)));
  }
  return sub(P, D);
}

// f (for each row a map from classes to values over 2^fBits) and the excess of each class, after the balance rows.
function flows({ beta, balance }, { rows, n, classes: K }, c) {
  const pBits = mostBits(beta);
  const f = rows.map(() => new Map());
  const excess = zeros(K);
  const change = (i, k, x) => {                                // add x to f_ik
    f[i].set(k, (f[i].get(k) ?? 0n) + x);
    excess[rows[i].kind] += x;
    excess[k] -= x;
  };

  beta.forEach(({ at, number }, k) => at.forEach((i, t) => {
    need(rows[i].kind !== k, 'a beta entry for the row\'s own class');
    change(i, k, c.v[i] * shift(number[t].m, number[t].e + pBits));
  }));

  if (balance) {
    const [hub, ...r] = balance;
    need(hub < K, 'the hub is no class');
    for (let k = 0; k < K; k++) {
      if (k === hub) continue;
      need(r[k] < n, 'a balance row does not exist');
      const kind = rows[r[k]].kind;
      need(kind === k || kind === hub, 'a balance row has another class');
      need(c.v[r[k]] > 0n, 'a balance row has no weight');
      // Changing the value by the excess makes e_k zero, whatever the file's entry was.
      if (kind === k) change(r[k], hub, -excess[k]); else change(r[k], k, excess[k]);
    }
  }
  return { f, fBits: c.bits + pBits, excess };
}

// ---------------------------------------------------------------------------------------------------------------------
// Verdict
// ---------------------------------------------------------------------------------------------------------------------

function verdict(proofPath, dataPath) {
  try {
    checkProof(readBytes(proofPath, 'proof'), readBytes(dataPath, 'data'));
    return 'verified';
  } catch (error) {
    if (error instanceof Refused) return `refused: ${error.message}`;
    return `refused: the check failed (${error?.name ?? 'error'})`;       // for example values too large for memory
  }
}

const paths = process.argv.slice(2);
if (paths.length === 0 || paths.length % 2) {
  console.error('usage: node second_checker.mjs PROOF DATA [PROOF DATA ...]');
  process.exitCode = 1;
}
for (let k = 0; k + 1 < paths.length; k += 2) {
  const line = verdict(paths[k], paths[k + 1]);
  console.log(line);
  if (line !== 'verified') process.exitCode = 1;
}
