// Colours for code that is complete: comments, strings, numbers, words of the language. Made of text nodes.

const WORDS = new Set(("and as assert async await break case catch class const continue def default del do elif else enum " +
  "except export extends False final finally fn for foreach from func function global go if impl implements import in " +
  "instanceof interface is lambda let loop match mod module mut new nil None nonlocal not null or package pass private " +
  "protected pub public raise return self static struct super switch this throw throws trait True true false try type " +
  "typeof undefined union use using var void where while with yield then fi done esac echo").split(" "));
const HASH = new Set(["py", "python", "sh", "bash", "shell", "zsh", "rb", "ruby", "yaml", "yml", "toml", "make", "r", "perl", "dockerfile", "console"]);
const PLAIN = new Set(["", "text", "txt", "md", "markdown", "output", "log", "diff", "patch"]);
const TOKENS = {
  hash: /(#[^\n]*)|("""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\b(\d[\w.]*)\b|([A-Za-z_]\w*)(?=(\s*\()?)/g,
  slash: /(\/\/[^\n]*|\/\*[\s\S]*?\*\/|--[^\n]*(?=\n|$))|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|\b(\d[\w.]*)\b|([A-Za-z_$]\w*)(?=(\s*\()?)/g,
};

/** Colour an element that holds nothing but text. */
export function paint(code, language) {
  const kind = language.toLowerCase();
  if (kind === "diff" || kind === "patch") return paintDiff(code);
  if (PLAIN.has(kind)) return;
  const text = code.textContent;
  const made = [];
  let at = 0;
  for (const found of text.matchAll(HASH.has(kind) ? TOKENS.hash : TOKENS.slash)) {
    const [all, comment, string, number, word, calls] = found;
    const name = comment ? "comment" : string ? "string" : number ? "number"
      : word && WORDS.has(word) ? "keyword" : word && calls !== undefined ? "name" : "";
    if (!name) continue;
    if (found.index > at) made.push(text.slice(at, found.index));
    const span = document.createElement("span");
    span.className = `t-${name}`;
    span.textContent = all;
    made.push(span);
    at = found.index + all.length;
  }
  made.push(text.slice(at));
  code.replaceChildren(...made);
}

function paintDiff(code) {
  const made = [];
  for (const line of code.textContent.split("\n")) {
    const span = document.createElement("span");
    span.className = line.startsWith("+") ? "t-added" : line.startsWith("-") ? "t-removed" : line.startsWith("@@") ? "t-comment" : "";
    span.textContent = line;
    if (made.length) made.push("\n");
    made.push(span);
  }
  code.replaceChildren(...made);
}
