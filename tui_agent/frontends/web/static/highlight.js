// Syntax highlighting of complete code: comments, strings, numbers, keywords. Creates text nodes only.

const KEYWORDS = new Set(("and as assert async await break case catch class const continue def default del do elif else enum " +
  "except export extends False final finally fn for foreach from func function global go if impl implements import in " +
  "instanceof interface is lambda let loop match mod module mut new nil None nonlocal not null or package pass private " +
  "protected pub public raise return self static struct super switch this throw throws trait True true false try type " +
  "typeof undefined union use using var void where while with yield then fi done esac echo").split(" "));
const HASH_COMMENT_LANGUAGES = new Set(["py", "python", "sh", "bash", "shell", "zsh", "rb", "ruby", "yaml", "yml", "toml", "make", "r", "perl", "dockerfile", "console"]);
const PLAIN_LANGUAGES = new Set(["", "text", "txt", "md", "markdown", "output", "log", "diff", "patch"]);
const TOKENS = {
  hash: /(#[^\n]*)|("""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\b(\d[\w.]*)\b|([A-Za-z_]\w*)(?=(\s*\()?)/g,
  slash: /(\/\/[^\n]*|\/\*[\s\S]*?\*\/|--[^\n]*(?=\n|$))|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|\b(\d[\w.]*)\b|([A-Za-z_$]\w*)(?=(\s*\()?)/g,
};

/** Highlight an element that contains only text. */
export function highlight(code, language) {
  const kind = language.toLowerCase();
  if (kind === "diff" || kind === "patch") return highlightDiff(code);
  if (PLAIN_LANGUAGES.has(kind)) return;
  const text = code.textContent;
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(HASH_COMMENT_LANGUAGES.has(kind) ? TOKENS.hash : TOKENS.slash)) {
    const [token, comment, string, number, word, call] = match;
    const name = comment ? "comment" : string ? "string" : number ? "number"
      : word && KEYWORDS.has(word) ? "keyword" : word && call !== undefined ? "name" : "";
    if (!name) continue;
    if (match.index > end) nodes.push(text.slice(end, match.index));
    const span = document.createElement("span");
    span.className = `t-${name}`;
    span.textContent = token;
    nodes.push(span);
    end = match.index + token.length;
  }
  nodes.push(text.slice(end));
  code.replaceChildren(...nodes);
}

function highlightDiff(code) {
  const nodes = [];
  for (const line of code.textContent.split("\n")) {
    const span = document.createElement("span");
    span.className = line.startsWith("+") ? "t-added" : line.startsWith("-") ? "t-removed" : line.startsWith("@@") ? "t-comment" : "";
    span.textContent = line;
    if (nodes.length) nodes.push("\n");
    nodes.push(span);
  }
  code.replaceChildren(...nodes);
}
