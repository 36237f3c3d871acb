// The engine of the served page: every look is a question to the server.

const engine = {
  async look({ side, bytes }, resolution, rank) {
    let text = "";
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    const body = JSON.stringify({ pixels: btoa(text), side, resolution, rank });
    let answer;
    try {
      answer = await fetch("/api/look", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    } catch {
      throw new Error("the server does not answer: start fourierscale explore again and reload this page");
    }
    const reply = await answer.json();
    if (!answer.ok) throw new Error(reply.error);
    return reply;
  },
};
