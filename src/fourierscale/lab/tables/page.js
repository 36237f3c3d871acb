for (const box of document.querySelectorAll("[data-maps]")) {
  const states = JSON.parse(box.querySelector("script").textContent);
  const slider = box.querySelector("input");
  slider.addEventListener("input", () => {
    const state = states[Number(slider.value)];
    for (const image of box.querySelectorAll("[data-show]")) image.src = state[image.dataset.show];
    for (const place of box.querySelectorAll("[data-tell]")) {
      place.textContent = state[place.dataset.tell];
      if (place.dataset.tell.endsWith("-error")) place.className = state[place.dataset.tell.replace("-error", "-class")];
    }
  });
}
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
