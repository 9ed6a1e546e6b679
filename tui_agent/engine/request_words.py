"""The words by which a request is read: verbs, questions, demands, faults, and how clauses are joined.

Patterns of one word or phrase are matched at the beginning of a sentence or clause unless they say `\\b` first.
"""

from __future__ import annotations

import re


def either(*words: str) -> re.Pattern[str]:
    """A pattern that finds any of some patterns, in capitals or not."""
    return re.compile("|".join(words), re.IGNORECASE)


NUMBERS = {
    name: at
    for at, name in enumerate(
        ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
"""Small numbers that are written as words."""


def number_in(text: str) -> int:
    """A number in digits, or one of those words in capitals or not."""
    return int(text) if text.isdecimal() else NUMBERS[text.lower()]


# --- verbs of English ---------------------------------------------------------------------------

MENDING = "fix|repair|mend|solve|resolve|correct|debug"
CHANGING = (
    f"{MENDING}|accept|add|adapt|adjust|allow|append|apply|avoid|bump|change|clean|convert|copy|create"
    f"|decouple"
    "|delete|deprecate|disable|document|drop|edit|enable|ensure|escape|export|expose|extend|extract|format"
    "|generate|give|handle|ignore|implement|improve|inline|insert|install|introduce|let|localize|make|mark"
    "|memoize|merge|migrate|modify|move|optimi[sz]e|pin|port|prepend|prevent|raise|reduce|refactor|reformat"
    "|remove|rename|reorder|replace|return|reverse|rewrite|round|save|set|simplify|skip|sort|speed|split"
    "|strip|support|swap|switch|translate|turn|type|uncomment|update|upgrade|use|validate|wrap|write"
)
MORE = (
    "abbreviate|abort|abstract|activate|align|alphabeti[sz]e|animate|annotate|archive|assert|assign|attach"
    "|authenticate|auto-?\\w+|back up|base|batch|block|boost|buffer|bundle|cache|cancel|capitali[sz]e|cap"
    "|catch|cent(?:er|re)|chain|clamp|clear|clip|close|coerce|collapse|colou?r|combine|comment(?! on)"
    "|compact|complete|compose|compress|concatenate|configure|consolidate|construct|cover|crop|cut"
    "|deactivate|decode|decorate|decrease|decrypt|dedent|deduplicate|default|defer|delay|deny|derive"
    "|deserialize|discard|display|distinguish|divide|double|downcase|downgrade|duplicate|embed|emit|empty"
    "|encapsulate|encode|encrypt|end|enforce|enlarge|enrich|erase|exclude|expand|factor|fall back|fill"
    "|flatten|flip|flush|fold|forbid|force|freeze|generali[sz]e|get rid of|glue|grow|guard|halve|harden|hash"
    "|hide|highlight|hoist|hook|increase|increment|indent|inherit|initiali[sz]e|inject|integrate|interpolate"
    "|invert|invoke|isolate|join|justify|keep (?:only|track|count|a|an|at most|the (?:first|last|newest"
    "|oldest|order))|leave (?:a|an|out|off)|lengthen|lift|limit|link|loosen|lower(?:case)?|mask|maximi[sz]e"
    "|minify|minimi[sz]e|mirror|mock|moderni[sz]e|multiply|mute|narrow|negate|nest|normali[sz]e|notify"
    "|obfuscate|omit|order|override|overwrite|pack|pad|paginate|parallelize|parametri[sz]e|partition|pass"
    "|paste|patch|permit|persist|polish|pop|populate|postpone|preserve|promote|propagate|protect|provide"
    "|prune|publish|purge|put|randomi[sz]e|rearrange|rebase|rebuild|recalculate|recolou?r|redirect|redo"
    "|register|reject|relax|release|relocate|repeat|rephrase|require|reset|reshape|resize|restore|restrict"
    "|restructure|retry|reuse|revert|reword|rotate|rework|sanitize|scale|schedule|seal|secure|separate"
    "|serialize|shift|shorten|shrink|shuffle|shut|silence|slice|slugify|smooth|stub|style|substitute"
    "|subtract|suppress|surround|synchroni[sz]e|sync|throttle|throw|tidy|tighten|toggle|tokenize|transform"
    "|transpose|trim|triple|truncate|tweak|undo|unescape|unify|unpack|unwrap|upcase|uppercase|vectorize|warn"
    "|widen|yield|zip"
)
"""Verbs that ask for a change only where a request names a file or a part of a program."""
DATA = (
    "fetch|load|parse|define|calculate|compute|record|call|send|log|store|connect|detect|include|reload"
    "|render|reference|quote|match|map|filter|group|tag|track|associate|bring|number|label|lint|stop|import"
    "|lock|bind"
)
"""Verbs that ask for a change only where a request names a file or an identifier: else they are what somebody does."""
RUNNING = "run|execute|start|launch|build|compile|test|commit|push|re-?run"
WHOLE = r"(?![\w(/]|-\w|\.\w| (?:of|is|are|was|were|value of|order of|cases? (?:of|in|are|is))\b)"
"""What may not stand behind a word for it to be a verb: `add(2, 3)`, `add.py`, "format of"."""
HEAD = re.compile(
    r"(?:(?:please|kindly|pls|hi|hello|hey|ok(?:ay)?|now|then|also|next|first(?:ly)?|second(?:ly)?|finally"
    r"|lastly|only|afterwards?|additionally|and|but|so|or|just|simply|let's|let us|todo|task|your (?:task"
    r"|job) is(?: to)?|the task is(?: to)?|go ahead and|try to|help me(?: to)?|be sure to|make sure to"
    r"|if (?:so|not|yes|necessary|needed|possible)|(?:can|could|would|will|might) (?:you|we)(?: maybe"
    r"| perhaps)?|(?:you|we|i)(?: really)? (?:should|must|could|can|(?:have|need|want|wish|would like) to)"
    r"|(?:you|we|i)'d (?:like|love) (?:you )?to|i (?:want|need|would like|ask|expect) you to|it is time to"
    r"|(?:it )?would (?:it )?be (?:nice|great|good|cool|helpful|useful|better|possible|ok(?:ay)?)(?: to"
    r"| if)(?: (?:you|we)(?: could| can| would)?)?|you could|why (?:don't (?:you|we)|not)|(?:in|inside"
    r"|within|at the (?:top|end) of) (?:the )?(?:file |module |class |function )?(?:`[^`]+`"
    r"|[\w./-]+\.\w+))[,:!]?\s+)+",
    re.IGNORECASE,
)
"""What may stand before the verb of a request."""
MODAL = either(
    r"\b(?:can|could|would|will|might) (?:you|we)\b|\bwould (?:it )?be\b|\bplease\b|\bwhy (?:don't|not)\b"
)
GERUND = re.compile(
    r"(?:(?:would|do) you mind|mind|how about|what about|consider|stop|avoid)\s+(\w+)ing\b", re.IGNORECASE
)
DEALING = re.compile(rf"(?:{DATA}){WHOLE}", re.IGNORECASE)
STRONG = re.compile(rf"(?:{CHANGING}){WHOLE}", re.IGNORECASE)
VERB = re.compile(rf"(?:{CHANGING}|{MORE}|{DATA}){WHOLE}", re.IGNORECASE)
MEND = re.compile(rf"(?:{MENDING}){WHOLE}", re.IGNORECASE)
WORDING = either(
    r"(?:write|give|make|create|generate|translate|improve|round|sort|type|return|use|convert|turn|split|let"
    r"|mark|set|correct)\b"
)
"""Verbs that also ask for words alone: "write a haiku"."""
ARTICLE = re.compile(
    r"([a-z]{3,}) (?:the|a|an|all|every|each|both|any|its|my|our|no|another|this|that|these|those|two"
    r"|three)\b",
    re.IGNORECASE,
)
NO_VERB = either(
    r"(?:\w+(?:ly|ing|ed|ous|ful|tion)|and|but|yet|for|nor|with(?:out|in)?|into|onto|from|over|under|after"
    r"|before|since|until|till|while|when|where|whereas|because|although|though|unless|once|than|then|that"
    r"|this|these|those|the|all|both|each|every|some|any|many|most|few|such|what|which|who|whose|why|how|not"
    r"|only|even|just|also|still|are|was|were|has|have|had|does|did|can|could|should|would|will|shall|may"
    r"|might|must|there|here|its?|his|her|our|your|their|about|above|across|against|along|among|around"
    r"|behind|below|beside|besides|between|beyond|despite|during|except|inside|like|near|off|outside|past"
    r"|per|through|throughout|toward|towards|upon|via|maybe|perhaps|quite|rather|sometimes|often|always"
    r"|never|thanks?|yes|you|they|keep|leave|open|see|note|know|think|assume|suppose|given|imagine|remember"
    r"|believe|hope|guess|mean|love|want|need|watch|wait|continue|proceed|measure|profile|benchmark|show"
    r"|print|name|count|report|compare|search|read|answer|test|start|build|run|check|verify)"
)
"""Words that stand before an article and are no verb that asks for a change."""
BY_ITS_OBJECT = either(
    r"build (?:an?|me)\b|start (?:with|\w+ing|the \w+ (?:at|with|from))\b|test \w.* in ",
    r"(?:show|display|print) (?:an?\b|.*\b(?:when|while|before|after|instead)\b|.*\.(?:html|css|[jt]sx|vue"
    r"|svelte)\b)",
    r"(?:read|count|do|name|report|compare) .*\b(?:from|instead|same|only)\b",
    r"open\b.*\b(?:with|as|using|mode|encoding)\b",
    r"(?:describe|explain|document|summari[sz]e|list|outline|mention) (?:in"
    r"|.*\w\.\w+ in) (?:the )?(?:readme\b|docs\b|[\w./-]+\.(?:md|rst|txt|adoc|html)\b)",
)
"""Requests for a change whose verb may ask for other things too."""
OBJECT = re.compile(
    r"[a-z-]+(?: (?:back|up|out|down))? (?:it|them|this|that|these|those|the|an?|all|any|every|each|both|its"
    r"|their|his|her|my|our|your|everything|whatever|what|one|two|three|some|another|more|missing|unused|new"
    r"|old|wrong|failing|broken|dead|tests?|docstrings?|comments?|type hints|`|\"|'|--\w|\d|[\w./-]+\.\w"
    r"|\w+_\w|\w+\(|(?-i:[A-Z])\w)",
    re.IGNORECASE,
)
"""A verb with what it is done to."""

# --- questions ----------------------------------------------------------------------------------

STRUCTURE = (
    r"(?:functions?|methods?|class(?:es)?|imports?|usages?|uses|calls?|callers?|contents?|files?|diff|source"
    r"|code|structure|tree|signatures?|definitions?|lines|histor(?:y|ies)|tests?|todos?|modules?|endpoints?"
    r"|dependencies|packages|problems|issues|bugs|differences?|places|parameters|variables|constants"
    r"|commands|exceptions|errors)"
)
SOME = r"(?:me |us )?(?:(?:the|all|any|every|each|a|an|its|my|our|of|two|three|four|five|\d+|public|main|\w+ed)\s+)*"
WORD = r"(?:what|which|where|when|who|whom|whose|why|how|whether|if)"
ASKING = either(
    r"(?:what|which|who|whom|whose|why|how)\b(?![(_.])",
    r"(?:where|when) (?:is|are|was|were|does|do|did|will|should|can|could|has|have|in|exactly)\b",
    r"(?:(?:briefly|shortly|quickly|carefully) )?(?:explain|describe|summari[sz]e|outline|discuss|elaborate"
    r"|clarify|suggest|propose|recommend|estimate|find|locate|identify|determine|investigate|review|critique"
    r"|critici[sz]e|inspect|analy[sz]e|audit|assess|evaluate|examine|diagnose|list|enumerate|brainstorm"
    r"|research|study|check|verify|tell (?:me|us)|let (?:me|us) (?:know|see)|walk (?:me|us)"
    rf"|give (?:me|us) (?:(?:the|all|every|each|its|of)\s+)+(?:names?|paths?|number|reason|cause|purpose"
    rf"|value|type|{STRUCTURE})|(?:have|take) a (?:\w+ )?look|look|go (?:through|over)|figure out"
    rf"|think about|comment on|summary of|(?:show|display|print|name|count|report)(?: to)? (?:(?:me|us"
    rf"|{WORD})\b|{SOME}{STRUCTURE})"
    r"|compare|search|answer|say|read (?:(?:through )?[\w./-]+\.\w+|the (?:file|code|project|readme|source)"
    r"|readme))"
    rf"(?![\w(/]|-\w|\.\w)",
    r"(?:i (?:do not|don't|can't|cannot) (?:quite |really |fully )?(?:understand|know|get|see)|i wonder"
    r"|i am curious|i'm (?:curious|wondering|not sure)|(?:know|learn|understand|hear|find out)\b|see (?:what"
    r"|how|which|if|whether|the|all|where|why)\b)",
)
NOT_ASKING = either(
    r"compare\b.*\b(?:case-?insensitive(?:ly)?|ignoring|instead|numerically|as (?:numbers|text|strings"
    r"|integers))\b",
    r"(?:check|verify|look up|search|read|count|report|print|name)\b.*\b(?:instead|case-?insensitive(?:ly)?"
    r"|ignoring)\b",
    r"(?:check|verify|test)\b.*\b(?:before|at the (?:start|beginning) of|and (?:raise|return|throw|print"
    r"|exit))\b",
)
"""A request for a change with a verb that else asks for an answer."""
NOUNS = (
    r"(?:summary|overview|explanation|description|outline|comparison|review|analysis|walkthrough|breakdown"
    r"|answer|estimate|opinion|ideas?|hints?|suggestions?|recommendations?|advice|impression|critique"
    r"|examples?|report"
    rf"|plan|proposal|(?:list|table) of {SOME}{STRUCTURE})"
)
ANSWER = re.compile(
    r"(?:(?P<given>give|show|tell|send|provide|i (?:want|need|would like)|i'd like|want|need|have|get|like)"
    r"|write|generate|create|make|produce|prepare|draft|return|compile|put together|do)(?: me| us)?"
    rf" (?:(?:an?|the|your|some|short|brief|quick|small|\w+ed|high-level|one-\w+|of"
    rf"|few) ?)*\b{NOUNS}\b(?! \w*function)",
    re.IGNORECASE,
)
"""Words that are asked for, like a summary; `given` where they can hardly be meant for a file."""
TARGET = either(
    r"\b(?:to|into|as|called|named|file) (?:an? |the )?(?:new )?(?:file )?(?:called "
    r"|named )?`?[\w./-]*\w\.[a-z]\w{0,4}\b",
    r"\bin(?:to)? an? (?:new )?file\b|\b(?:to|in|into|for|at the \w+ of) (?:the |a |your )?(?:readme"
    r"|changelog|docs?|docstring|documentation|comment|module|function|class|file)\b",
)
PROSE_FILE = either(r"\bin (?:a new file )?`?[\w./-]+\.(?:md|txt|rst|html?|adoc|csv)\b")
WISH_HEAD = either(r"(?:can|could|may|might) (?:we|i) (?:please )?(?:get|have)\b")
TAG = either(r"(?:ok(?:ay)?|right|please|yes|no|thanks?|agreed|deal|understood)\?$")
STYLE = either(
    r"(?:include|exclude|ignore|skip|sort|order|group|limit|mark|highlight|omit|number|link|end|put"
    r"|load)\b(?!.*\binstead\b)",
    r"(?:make|keep) (?:it|this|that|the \w+|everything) (?:as )?(?:short|brief|simple|concise|easy|clear"
    r"|under|to )",
    r"(?:use|write|give|format|return|add|avoid|print|output|type|translate|provide|complete"
    r"|shorten)\b(?!.*(?:[\w-]+\.[a-z]{1,4}\b|\w\(|\w_\w|docstring|comment|test|function|method|class|option"
    r"|type hint|readme|docs\b|changelog|code))",
)
"""How an answer should look, behind a question."""

# --- demands, faults, what must not be done -----------------------------------------------------

DEMAND = either(
    r"\b(?:must|should|has to|have to|needs? (?:to|an?|more|some|\w+ing)|ought to|shall|(?:is"
    r"|are) (?:supposed )?to be|(?:is|are) supposed to|could use|deserves?)\b",
    rf"\b(?:{MENDING}) (?:it|this|that|them|the)\b",
    r"\b(?:i|we|users?) (?:\w+ )?(?:want|need|would like|'d like|would love|wish|miss)\b|\b(?:i"
    r"|we)'d (?:like|love)\b",
    r"\bwould be (?:nice|great|good|cool|helpful|useful|better)\b|^(?:can|could|may) (?:we|i) (?:get|have)\b",
)
FAULT = either(
    r"\b(?:fail(?:s|ed|ing)?|crash(?:es|ed|ing)?|breaks?|hangs?|misbehaves?|freezes?|lacks?|forgets|throws?"
    r"|raises? \w+(?:Error|Exception)|no longer works?|stopped working|instead of|by mistake|off by one"
    r"|infinite loop|(?:there (?:is|are)|has|have|contains?) (?:an? |no |two |three |some |several |many "
    r"|still )?(?:\w+ )?(?:bugs?|errors?|typos?|mistakes?|problems?|faults?)|(?:there (?:is|are)|has|have"
    r"|contains?) no (?:\w+ )?(?:docstrings?|tests?|type hints|comments?)|(?:does|do|did)(?: not"
    r"|n'?t) (?:seem to )?work)\b",
    r"\b(?:is|are|seems?|looks?|gets?) (?:\w+ )?(?:wrong|broken|missing|incorrect|outdated|buggy|flawed"
    r"|false|bad|misspelled|too \w+|inverted|swapped|reversed|misleading|unsafe|duplicated?)\b",
    r"\b(?:returns?|gives?|prints?|shows?|yields?|computes?|calculates?|uses?|writes?)\b.{0,30}\b(?:wrong"
    r"|incorrect|nothing|twice|too)\b",
    r"^(?:bug|defect|problem|fault)\b[:,]",
)
"""What a report of a fault says; of something that is named it asks for a repair."""
LACK = either(
    r"(?<!\bi )(?<!\byou )(?<!\bwe )(?<=[\w)`] )(?<!please )(?:does|do|did|is|are|can|will)(?: not|n'?t)\b"
    r"|(?<=[\w)`] )(?:cannot|can'?t|won'?t)\b",
)
"""What something is not or does not do: a fault where it is named by an identifier or a path."""
ELSE = r"(?! else| except| but| other| beside| apart| in | to )"
NOTHING = either(
    r"\b(?:do not|don't|without|never) (?:chang|edit|modify|modif|touch|writ|creat)\w* "
    rf"(?:anything|any files?|any code|files|the (?:code|project|files?)|code|it)\b{ELSE}",
    rf"\b(?:change|touch|modify|edit) nothing\b{ELSE}|\bnothing (?:is to|should|must|may"
    rf"|shall) (?:be )?change",
    r"\bonly (?:answer|explain|tell|describe)\b|\bjust (?:answer|explain|tell me)\b",
    r"\b(?:make |do )?no (?:changes|edits)(?:,? please)?[.!]*$",
    r"\b(?:nichts (?:ändern|verändern)|(?:ver)?ändere nichts|ohne etwas zu (?:ver)?ändern|nur erklären)\b",
    r"\b(?:ne (?:change|modifie)[rz]? rien|sans rien (?:changer|modifier)|no (?:cambies|modifiques) nada"
    r"|sin (?:cambiar|modificar) nada|(?:non|senza) (?:cambiare|modificare) (?:nulla|niente)|(?:não (?:mude"
    r"|altere)|sem (?:mudar|alterar)) nada)\b",
)
RESTRICTION = either(
    r"(?:(?:do not|don't|never|without|not|no)\b|(?:make|do) no (?:other )?(?:changes|edits)|(?:change|touch"
    r"|modify|edit|add|break|remove|delete) (?:nothing|no other)|leave\b(?! (?:an?|out|off) )"
    r"|keep\b(?! (?:only|track|count|an?) )|nothing\b|everything else|the rest|all else|avoid chang)"
)
"""How a clause begins that only says what stays as it is."""
STAYS = either(
    r"\b(?:must|should|may|shall|has to|have to|needs? to)(?: not| never|n't)? (?:be )?(?:chang|modif|touch"
    r"|stay|remain|keep|work as before)"
)

# --- other languages ----------------------------------------------------------------------------

OTHER_HEAD = either(
    r"(?:(?:bitte|nun|jetzt|dann|und|s'il (?:te|vous) pla[iî]t|stp|svp|et|puis|por favor|per favore"
    r"|per piacere|y|e|luego|poi|depois)(?:[,:]\s*|\s+)|[¿¡]\s*)+(?=\S)"
)
OTHER_ASKING = either(
    r"(?:[¿¡]\s*)?(?:was (?!it|the|this|that|there|he|she|an?\b|\w+ing)|wie|warum|wieso|weshalb"
    r"|welche[rsnm]?|wo|wohin|wann|wer|wem|wessen|wozu|erkläre?|zeige?|beschreibe?|nenne?|liste\b.* auf\b"
    r"|fasse?|sage? mir|prüfe?|überprüfe?|untersuche?|analysiere?|vergleiche?|finde|gib mir (?:einen?"
    r"|eine) (?:überblick|übersicht|zusammenfassung|liste)|schau|was für|que(?:l|ls|lle|lles)?|qu'est-ce|qu'"
    r"|comment (?=fonctionne|marche|faire|est|sont|se|on|puis|peut|utilise|je|ça|l[ae]s?|l'|\w+er\b)"
    r"|pourquoi|où|quand|combien|est-ce|expliqu(?:e|er|ez)|décri[sv](?:ez)?|montre[rz]?|résume[rz]?"
    r"|liste[rz]? (?=l[ae]s?\b|toutes|tous)|dis-moi|dites-moi|trouve[rz]?|vérifie[rz]?|analyse[rz]?"
    r"|examine[rz]?|donne[rz]?-moi|qué|cómo|por ?qu[éeê]|cuál(?:es)?|dónde|cuándo|quién|cuánt[oa]s?"
    r"|explica(?:me|r)?|muestra(?:me)?|muéstrame|resum[ea] (?=el|la|los|las|lo|o|a)|dime|encuentra|compara"
    r"|revisa|comprueba|analiza|enumera|dame un|che|cosa|come (?=funziona|si|posso|mai|è|viene|fa|faccio)"
    r"|perché|qual[ei]?|dove|chi|quant[oaie]|spieg(?:a|ami)|descrivi|mostra(?:mi)?|riassumi|elenca|dimmi"
    r"|trova|confronta|controlla|analizza|dammi un|o que|como|quais|onde|quando|quem|explique|descreva"
    r"|mostre|resuma|diga(?:-me)?|encontre|verifique|revise|analise|dê-me)\b"
)
OTHER_VERB = either(
    r"(?:(?:be|um)nenne?|füge?|ergänze?|ändere?|verändere?|lösche?|entferne?|ersetze?|erstelle?|lege? .* an"
    r"|schreibe?|korrigiere?|behebe?|repariere?|verbessere?|setze?|mache?|implementiere?|erweitere?"
    r"|verschiebe?|kopiere?|passe? .* an|übersetze?|baue?|nutze?|verwende?|benutze?|sorge?|stelle? sicher"
    r"|teile?|trage?|erhöhe?|verringere?|senke?|kürze?|sortiere?|formatiere?|dokumentiere?|kommentiere?"
    r"|aktualisiere?|vereinfache?|optimiere?|refaktoriere?|gib|lass(?:e)?|wandle?|konvertiere?|runde?|fange?"
    r"|wirf|vermeide?|verhindere?|generiere?|erzeuge?|ajoute[rz]?|corrige[rz]?|supprime[rz]?|renomme[rz]?"
    r"|remplace[rz]?|modifie[rz]?|change[rz]?|crée[rz]?|écri(?:s|re|vez)|met(?:s|tre|tez)|déplace[rz]?"
    r"|extrai[st]|implémente[rz]?|améliore[rz]?|simplifie[rz]?|fai(?:s|re|tes)|utilise[rz]?|tradui[st]"
    r"|documente[rz]?|enlève|enlever|retire[rz]?|répare[rz]?|converti[srt]|transforme[rz]?|trie[rz]?"
    r"|arrondi[srt]|augmente[rz]?|diminue[rz]?|rédui[st]|complète|génère|générer|insère|insérer"
    r"|fusionne[rz]?|évite[rz]?|añad(?:e|ir|a)|agreg(?:a|ar|ue)|corrig[ei]r?|corrija|arregl(?:a|ar|e)"
    r"|elimin(?:a|ar|e)|borr(?:a|ar|e)|quit(?:a|ar)|renombr(?:a|ar|e)|cambi(?:a|ar|e|are)|reemplaz(?:a|ar|e)"
    r"|sustituye|sustituir|modifi(?:ca|car|que|che|care)|cre(?:a|ar|e|are)|escrib(?:e|ir|a)|pon|poner|mueve"
    r"|mover|extrae(?:r)?|implement(?:a|ar|e|are)|mejor(?:a|ar|e)|simplifi(?:ca|car|que)|haz|hacer|usa|usar"
    r"|utiliz(?:a|ar|e|za)|traduc(?:e|ir|i)|document(?:a|ar|are)|convierte|convertir|orden(?:a|ar|e)"
    r"|redondea|aument(?:a|ar|e|are)|reduc(?:e|ir)|actualiz(?:a|ar)|insert(?:a|ar)|gener(?:a|ar|e|are)"
    r"|evita(?:r|re)?|aggiung(?:i|ere)|corregg(?:i|ere)|ripara(?:re)?|sistema(?:re)?|rimuov(?:i|ere)"
    r"|cancella(?:re)?|togli(?:ere)?|rinomina(?:re)?|sostitui(?:sci|re)|rimpiazza(?:re)?|scriv(?:i|ere)"
    r"|mett(?:i|ere)|imposta(?:re)?|sposta(?:re)?|estra(?:i|rre)|migliora(?:re)?|convert(?:i|ire)"
    r"|trasforma(?:re)?|arrotonda(?:re)?|ridu(?:ci|rre)|aggiorna(?:re)?|inseri(?:sci|re)|uni(?:sci|re)"
    r"|dividi|permetti|adicion(?:e|a|ar)|acrescent(?:e|a|ar)|consert(?:e|a|ar)|remov(?:a|er)|apagu?(?:e|ar)"
    r"|exclu(?:a|ir)|renome(?:ie|ia|ar)|mud(?:e|ar)|alter(?:e|ar)|tro(?:que|car)|substitu(?:a|ir)|cri(?:e"
    r"|ar)|escreva|escrever|coloque|colocar|defina|mova|extraia|melhore|faça|fazer|traduza|converta|ordene"
    r"|arredonde|reduza|atualize|insira|gere|junte)\b"
)
OTHER_MODAL = either(
    r"(?:kannst|könntest|können|könnten|würdest|peux|pouvez|pourrais|pourriez|puedes|podrías|puede|podría"
    r"|puoi|potresti|può|pode|poderia|podes|bitte)\b"
)
OTHER_DOING = either(
    r"\b(?:(?:hinzu|ein|um|an|auf|zu|aus)?(?:fügen|benennen|ändern|löschen|entfernen|ersetzen|erstellen"
    r"|schreiben|korrigieren|beheben|reparieren|verbessern|setzen|machen|implementieren|erweitern"
    r"|verschieben|ergänzen|passen|erhöhen|verringern|senken|sortieren|aktualisieren|vereinfachen|bauen"
    r"|wandeln|teilen)|(?:\w+)?(?:ajouter|corriger|supprimer|renommer|remplacer|modifier|changer|créer"
    r"|écrire|mettre|déplacer|améliorer)|añadir|agregar|corregir|arreglar|eliminar|borrar|quitar|renombrar"
    r"|cambiar|reemplazar|modificar|crear|escribir|poner|mover|mejorar|actualizar|aggiungere|correggere"
    r"|rinominare|rimuovere|cancellare|cambiare|sostituire|modificare|creare|scrivere|spostare|adicionar"
    r"|corrigir|remover|apagar|renomear|mudar|alterar|trocar|substituir|criar|escrever)\b"
)
OTHER_RESTRICTION = either(
    r"(?:(?:ver)?ändere? (?:nichts|sonst)|lass(?:e)? .* (?:wie|unverändert|so)|ne |non |não )"
)
OTHER_WISH = either(
    r"\b(?:ich (?:möchte|will|brauche|hätte gerne?)|soll(?:te|en|ten)?|muss|müssen|fehlt|fehlen"
    r"|funktioniert nicht|ist falsch|stürzt|schlägt fehl|je (?:veux|voudrais)|il (?:faut|manque)|doit"
    r"|devrait|ne (?:marche|fonctionne) pas|plante|est faux|quiero|necesito|debe(?:ría)?|falta|no funciona"
    r"|está mal|voglio|vorrei|dovrebbe|manca|non funziona|quero|preciso|deve(?:ria)?|não funciona"
    r"|está errad[oa])\b"
)
OTHER_COMMAND = either(
    r"(?:führe? .* aus|starte? |lance[rz]? |exécute[rz]? |ejecuta |corre |esegui |execute |rode )"
)

# --- clauses ------------------------------------------------------------------------------------

JOINTS = re.compile(
    r"([,;:]\s+(?:(?:and|but|or|so)\s+)?(?:then\s+)?|\s+(?:and|but)\s+(?:then\s+)?|\s+then\s+|\s[–—-]{1,2}\s)"
)
PARALLEL = re.compile(
    r"\b(?:that|which|who)\b(?!.*\b(?:is|are|was|were|fails?|crash\w*)\b)|\b(?:how|what|where|when|why"
    r"|whether|if)\b.*\b(?:to|do|does|did|can|could|should|would|will|must|may|i|you|we|they)\b"
    rf"|\b(?:how|what|why|when|which|the)\b[^,;]*\b\w+s (?:{CHANGING}|{MORE})\b",
    re.IGNORECASE,
)
"""What stands before an "and" that joins verbs of what is asked about: "how to open a file and close it"."""
CONDITION = either(
    r"(?:if|when|where|wherever|for|in|on|to|unless|as|since|because|after|before|while|with)\b[^,]*$"
)
PART = re.compile(
    r"\b(?:file|folder|function|method|class|module|package|script|program|project|code|tests?|test suite"
    r"|option|flag|argument|parameter|variable|constant|field|column|table|section|heading|docstring|comment"
    r"|readme|changelog|config(?:uration)?|settings?|page|button|endpoint|api|command|import|bug|error"
    r"|type hints?|loop|query|database|branch|commit|version|dependency|dependencies|server|app|application"
    r"|website|site|game|tool|library|cli|it|them)\b",
    re.IGNORECASE,
)
MASKED = re.compile(
    r"\"[^\"\n]*\s[^\"\n]*\"|“[^”\n]*\s[^”\n]*”|(?<![\w`])'[^'\n]*\s[^'\n]*'(?!\w)|`[^`\n]*\s[^`\n]*`"
)
"""A quoted text of several words: what it says is not said to us."""
CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
LIST = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+\S", re.MULTILINE)
