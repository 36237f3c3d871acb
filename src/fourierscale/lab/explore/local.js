// The engine of the page that needs no server: the nets run in a worker, their weights are in the page.

const engine = (() => {
  const text = (id) => document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(text("weights")), (letter) => letter.charCodeAt(0));
  const weights = new Float32Array(bytes.buffer);
  // {"$": [start, end]} stands for a part of the weights.
  const nets = JSON.parse(text("nets"), (_, value) => (value && value.$ ? weights.slice(...value.$) : value));
  const worker = new Worker(URL.createObjectURL(new Blob([text("worker")], { type: "text/javascript" })));
  const waiting = new Map();
  let asked = 0;
  worker.onmessage = ({ data }) => {
    const { answered, refused } = waiting.get(data.number);
    waiting.delete(data.number);
    if (data.error) refused(new Error(data.error));
    else answered(data.reply);
  };
  worker.postMessage({ about: JSON.parse(text("about")), nets });
  return {
    look(image, resolution, rank) {
      return new Promise((answered, refused) => {
        waiting.set(++asked, { answered, refused });
        worker.postMessage({ number: asked, image, resolution, rank });
      });
    },
  };
})();
