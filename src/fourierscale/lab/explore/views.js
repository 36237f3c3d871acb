// Pictures and charts from numbers.

const MAGMA = [
  [0, 0, 4], [28, 16, 68], [79, 18, 123], [129, 37, 129], [181, 54, 122],
  [229, 80, 100], [251, 135, 97], [254, 194, 135], [252, 253, 191],
];
const GOOD = 1e-6;
const power = (error) => (error === 0 ? "0" : error.toExponential(0));
const safe = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

function magma(value) {
  const at = (value / 255) * (MAGMA.length - 1), first = Math.min(Math.floor(at), MAGMA.length - 2), share = at - first;
  return MAGMA[first].map((low, i) => low + share * (MAGMA[first + 1][i] - low));
}

// A grid of whole numbers from 0 to 255, one or three for each pixel.
function paint(canvas, { side, values }, colour) {
  const context = canvas.getContext("2d"), channels = values.length / (side * side);
  canvas.width = canvas.height = side;
  const pixels = context.createImageData(side, side);
  for (let i = 0; i < side * side; i++) {
    const value = values[i * channels];
    const rgb = channels === 3 ? values.slice(3 * i, 3 * i + 3) : colour ? magma(value) : [value, value, value];
    pixels.data.set([...rgb, 255], 4 * i);
  }
  context.putImageData(pixels, 0, 0);
}

// Rows of bars: one row per size, one bar per class; rows: [{name, now, values or null}].
function bars(rows, classes) {
  const shown = mostLikely(rows, classes.length), left = 54, width = 230, height = 22;
  const names = shown.map((label) => (classes[label].length > 11 ? `${classes[label].slice(0, 10)}…` : classes[label]));
  const upright = names.some((name) => name.length > 2), head = upright ? 84 : 18;
  const step = (width - left) / shown.length, bottom = head + rows.length * height;
  const parts = [`<svg class="bars" viewBox="0 0 ${width} ${bottom}" role="img" aria-label="probabilities of the classes">`];
  shown.forEach((label, j) => {
    const x = left + (j + 0.5) * step, y = head - 7;
    const place = upright ? `transform="translate(${x + 4} ${y}) rotate(-90)"` : `x="${x}" y="${y}" text-anchor="middle"`;
    parts.push(`<text ${place}><title>${safe(classes[label])}</title>${safe(names[j])}</text>`);
  });
  rows.forEach(({ name, now, values }, i) => {
    const base = head + (i + 1) * height - 3, top = values ? values.indexOf(Math.max(...values)) : -1;
    parts.push(`<text ${now ? 'class="now-text" ' : ""}x="${left - 6}" y="${base - 4}" text-anchor="end">${name}</text>`);
    const frame = `x="${left}" y="${base - height + 2}" width="${width - left - 1}" height="${height - 1}" rx="3"`;
    if (now) parts.push(`<rect class="now" ${frame}/>`);
    shown.forEach((label, j) => {
      const x = (left + j * step + 1.5).toFixed(1), wide = (step - 3).toFixed(1), share = values ? values[label] : 0;
      const tall = Math.max(share * (height - 6), values ? 0.6 : 0);
      parts.push(`<rect class="track" x="${x}" y="${base - 1}" width="${wide}" height="1"/>`);
      parts.push(`<rect class="share${label === top ? " top" : ""}" x="${x}" y="${(base - tall).toFixed(2)}" width="${wide}" `);
      parts.push(`height="${tall.toFixed(2)}"><title>${name}, ${safe(classes[label])}: ${share.toFixed(4)}</title></rect>`);
    });
  });
  return parts.join("") + "</svg>";
}

// At most ten classes: those that are likely in some row, in their own order.
function mostLikely(rows, count) {
  const all = Array.from({ length: count }, (_, label) => label);
  const peak = (label) => Math.max(0, ...rows.map(({ values }) => (values ? values[label] : 0)));
  return all.sort((a, b) => peak(b) - peak(a)).slice(0, 10).sort((a, b) => a - b);
}

// Errors over resolution, by powers of ten; series: [{key, points: [[resolution, error]]}].
function errorChart(series, choices, now) {
  const width = 440, height = 270, left = 52, right = 12, top = 12, bottom = 38;
  const logs = series.flatMap(({ points }) => points.filter(([, e]) => e > 0).map(([, e]) => Math.log10(e)));
  const low = Math.floor(Math.min(-16, ...logs) / 4) * 4, high = Math.max(1, Math.ceil(Math.max(0, ...logs)));
  const first = choices[0], last = choices[choices.length - 1];
  const x = (r) => left + ((r - first) / Math.max(1, last - first)) * (width - left - right);
  const y = (e) => top + ((high - (e > 0 ? Math.log10(e) : low)) / (high - low)) * (height - top - bottom);
  const parts = [`<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="difference over resolution">`];
  for (let tick = low; tick <= high; tick += 4) {
    parts.push(`<line class="rule" x1="${left}" x2="${width - right}" y1="${y(10 ** tick)}" y2="${y(10 ** tick)}"/>`);
    parts.push(`<text x="${left - 7}" y="${y(10 ** tick) + 4}" text-anchor="end">1e${tick}</text>`);
  }
  const every = Math.max(1, Math.round(choices.length / 6));
  choices.filter((_, i) => i % every === 0).forEach((r) => {
    parts.push(`<text x="${x(r)}" y="${height - bottom + 18}" text-anchor="middle">${r}</text>`);
  });
  parts.push(`<text x="${(left + width - right) / 2}" y="${height - 5}" text-anchor="middle">resolution in pixels</text>`);
  parts.push(`<line class="here" x1="${x(now)}" x2="${x(now)}" y1="${top}" y2="${height - bottom}"/>`);
  for (const { key, points } of series) {
    const placed = points.map(([r, e]) => `${x(r).toFixed(1)},${y(e).toFixed(1)}`);
    parts.push(`<polyline class="line ${key}" points="${placed.join(" ")}"/>`);
    for (const [r, e] of points) {
      parts.push(`<circle class="dot ${key}" cx="${x(r)}" cy="${y(e)}" r="3"><title>${r} px: ${power(e)}</title></circle>`);
    }
  }
  return parts.join("") + "</svg>";
}
