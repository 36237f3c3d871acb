// One image, one slider: whenever either changes, the engine looks again and the page shows what it saw.

const find = (id) => document.getElementById(id);
const about = JSON.parse(find("about").textContent);
const shown = [...about.nets].reverse(); // a plain CNN first, ours beside it
const digits = about.channels === 1 && about.classes.join() === "0,1,2,3,4,5,6,7,8,9";
const SURE = 0.99;
let resolution = about.resolutions[Math.floor(about.resolutions.length / 3)];
let image = null, latest = null, known = new Map(), busy = false, again = false, timer = 0;

function problem(text) {
  find("problem").textContent = text || "";
  find("problem").hidden = !text;
}

function imageChanged() {
  problem("");
  image = null;
  refresh();
}

async function refresh() {
  clearTimeout(timer);
  if (busy) return void (again = true);
  busy = true;
  try {
    do {
      again = false;
      if (!image) {
        image = pad.image();
        known = new Map();
        fitSlider();
      }
      if (image.bytes.every((value) => value === image.bytes[0])) {
        blank();
        continue;
      }
      const started = performance.now(), reply = await engine.look(image, resolution, Number(find("rank").value));
      keep(reply);
      latest = reply;
      show(reply, performance.now() - started);
    } while (again);
    if (latest) timer = setTimeout(sweep, 150);
  } catch (error) {
    problem(error.message);
  } finally {
    busy = false;
  }
}

// The other resolutions, one after the other, for the charts; whatever the user does comes first.
async function sweep() {
  const left = choices().filter((r) => !known.has(r));
  if (busy || !left.length) return void document.body.setAttribute("data-swept", String(!busy));
  busy = true;
  const asked = image;
  try {
    const reply = await engine.look(asked, left[left.length - 1], 0);
    if (image === asked && latest) {
      keep(reply);
      charts();
    }
  } catch (error) {
    problem(error.message);
  } finally {
    busy = false;
  }
  if (again) refresh();
  else timer = setTimeout(sweep, 0);
}

function blank() {
  latest = null;
  for (const canvas of document.querySelectorAll("#small, #maps canvas")) canvas.width = canvas.height = 1;
  for (const { key } of shown) {
    find(`${key}-error`).textContent = "-";
    find(`${key}-bars`).innerHTML = find(`${key}-answer`).textContent = "";
  }
  find("first").textContent = "";
  find("errors").innerHTML = "";
  find("timing").textContent = "Draw something, or choose an example.";
}

function keep(reply) {
  const of = (name) => Object.fromEntries(about.nets.map(({ key }) => [key, reply.nets[key][name]]));
  known.set(reply.resolution, { errors: of("error"), answers: of("probabilities") });
}

const size = () => Math.min(image ? image.side : about.size, about.size);

function choices() {
  const below = about.resolutions.filter((r) => r <= size());
  return below.includes(size()) ? below : [...below, size()];
}

function fitSlider() {
  const all = choices(), slider = find("slider");
  if (!all.includes(resolution)) resolution = all.findLast((r) => r <= resolution) ?? all[0];
  slider.max = all.length - 1;
  slider.value = all.indexOf(resolution);
  tellResolution();
}

function tellResolution() {
  find("resolution").textContent = resolution;
  find("slider").setAttribute("aria-valuetext", `${resolution} pixels`);
}

function show(reply, milliseconds) {
  document.body.removeAttribute("data-swept");
  paint(find("small"), reply.image, false);
  for (const { key } of shown) {
    const seen = reply.nets[key], error = find(`${key}-error`);
    paint(find(`${key}-small`), seen.small, true);
    paint(find(`${key}-shrunk`), seen.shrunk, true);
    error.textContent = power(seen.error);
    error.className = seen.error < GOOD ? "good" : "bad";
  }
  const inside = reply.seconds * 1000;
  find("timing").textContent = `The last look took ${milliseconds.toFixed(0)} ms, ${inside.toFixed(0)} of them in the nets.`;
  charts();
}

function charts() {
  const all = choices(), first = about.nets[0].key;
  for (const { key, name } of shown) {
    const levels = key === first && latest.levels.length > 1 ? latest.levels : null;
    const rows = groups(all).map(({ level, members }) => {
      const from = members[0], to = members[members.length - 1], asked = members.findLast((r) => known.has(r));
      return {
        name: from === to ? `${to} px` : `${from}, ${to}`,
        now: members.includes(resolution),
        values: levels ? levels[level] : asked === undefined ? null : known.get(asked).answers[key],
      };
    });
    find(`${key}-bars`).innerHTML = bars(rows, about.classes);
    const here = known.get(resolution)?.answers[key];
    const best = here ? here.indexOf(Math.max(...here)) : 0;
    if (here) find(`${key}-answer`).textContent = `at ${resolution} px: ${about.classes[best]}, ${here[best].toFixed(4)}`;
  }
  find("first").textContent = coarseFirst();
  const series = shown.map(({ key }) => ({
    key, points: all.filter((r) => r < size() && known.has(r)).map((r) => [r, known.get(r).errors[key]]),
  }));
  find("errors").innerHTML = errorChart(series, all, resolution);
}

// Where the first net could stop, looking at sizes an octave apart, coarse to fine.
function coarseFirst() {
  const steps = about.looks[size()] || [];
  if (steps.length < 2) return "";
  const best = (r) => Math.max(...latest.levels[about.levels[r]]);
  const at = steps.findIndex(([r]) => best(r) >= SURE), [side, work] = steps[at < 0 ? steps.length - 1 : at];
  const sizes = steps.map(([r]) => r).join(", ");
  if (at < 0) return `Coarse first: at none of ${sizes} px is it sure to ${SURE}.`;
  return `Coarse first: of ${sizes} px it is sure to ${SURE} at ${side} px, after ${work.toFixed(2)} of the work for all of it.`;
}

// Resolutions that share a level of the first net; each for itself, but not too many, where it has none.
function groups(all) {
  if (latest.levels.length < 2) {
    const step = Math.ceil(all.length / 11);
    return all.filter((_, i) => (all.length - 1 - i) % step === 0).map((r) => ({ level: 0, members: [r] }));
  }
  const found = new Map();
  for (const r of all) {
    const level = Math.min(about.levels[r] ?? Infinity, latest.levels.length - 1);
    found.set(level, [...(found.get(level) || []), r]);
  }
  return [...found].map(([level, members]) => ({ level, members }));
}

function build() {
  const pair = ({ key, name }) =>
    `<figure class="pair"><canvas id="${key}-small" role="img" aria-label="${name}: features of the downscaled image"></canvas>` +
    `<canvas id="${key}-shrunk" role="img" aria-label="${name}: downscaled features of the image"></canvas>` +
    `<figcaption><i class="swatch ${key}"></i>${name}: difference <b id="${key}-error">-</b></figcaption></figure>`;
  find("maps").innerHTML = shown.map((net) => pair({ key: net.key, name: safe(net.name) })).join("");
  find("maps").classList.toggle("one", shown.length < 2);
  const answer = ({ key, name }) =>
    `<div class="${key}"><h3>${safe(name)}</h3><div id="${key}-bars"></div><p id="${key}-answer"></p></div>`;
  const entry = ({ key, name, parameters }) =>
    `<span><i class="swatch ${key}"></i>${safe(name)}, ${parameters.toLocaleString("en")} parameters</span>`;
  find("answers").innerHTML = shown.map(answer).join("");
  find("legend").innerHTML = shown.map(entry).join("");
  find("rank").innerHTML = ["most", "second most", "third most", "fourth most", "fifth most", "sixth most"]
    .map((name, rank) => `<option value="${rank}">${name}</option>`)
    .join("");
  const examples = digits ? about.classes : ["example"];
  find("examples").innerHTML = examples.map((name) => `<button type="button">${name}</button>`).join("");
  if (about.channels !== 1) find("centre").parentElement.hidden = true;
}

build();
const pad = new Pad(find("pad"), about, { centre: find("centre"), invert: find("invert") }, imageChanged, problem);
[...find("examples").children].forEach((button, number) =>
  button.addEventListener("click", () => {
    if (digits) pad.digit(number);
    else pad.rings();
    imageChanged();
  }),
);
find("clear").addEventListener("click", () => {
  pad.clear();
  imageChanged();
});
find("centre").addEventListener("change", imageChanged);
find("invert").addEventListener("change", imageChanged);
find("rank").addEventListener("change", refresh);
find("slider").addEventListener("input", () => {
  resolution = choices()[Number(find("slider").value)];
  tellResolution();
  refresh();
});
find("file").addEventListener("change", (event) => {
  if (event.target.files.length) pad.open(event.target.files[0]);
  event.target.value = "";
});
addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("over");
});
addEventListener("dragleave", () => document.body.classList.remove("over"));
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("over");
  if (event.dataTransfer.files.length) pad.open(event.dataTransfer.files[0]);
});
find("examples").children[digits ? 5 : 0].click();
