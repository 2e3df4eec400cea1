"""The prompts and the texts for the tokenizer that make_smollm2_expected.py uses.

The texts are original or in the public domain.
"""

ALICE = """\
Alice was beginning to get very tired of sitting by her sister on the bank, and \
of having nothing to do: once or twice she had peeped into the book her sister \
was reading, but it had no pictures or conversations in it, "and what is the use \
of a book," thought Alice "without pictures or conversations?"

So she was considering in her own mind (as well as she could, for the hot day \
made her feel very sleepy and stupid), whether the pleasure of making a \
daisy-chain would be worth the trouble of getting up and picking the daisies, \
when suddenly a White Rabbit with pink eyes ran close by her.

There was nothing so very remarkable in that; nor did Alice think it so very \
much out of the way to hear the Rabbit say to itself, "Oh dear! Oh dear! I shall \
be late!" (when she thought it over afterwards, it occurred to her that she \
ought to have wondered at this, but at the time it all seemed quite natural); \
but when the Rabbit actually took a watch out of its waistcoat-pocket, and \
looked at it, and then hurried on, Alice started to her feet, for it flashed \
across her mind that she had never before seen a rabbit with either a \
waistcoat-pocket, or a watch to take out of it, and burning with curiosity, she \
ran across the field after it, and fortunately was just in time to see it pop \
down a large rabbit-hole under the hedge.

In another moment down went Alice after it, never once considering how in the \
world she was to get out again.

The rabbit-hole went straight on like a tunnel for some way, and then dipped \
suddenly down, so suddenly that Alice had not a moment to think about stopping \
herself before she found herself falling down a very deep well.

Either the well was very deep, or she fell very slowly, for she had plenty of \
time as she went down to look about her and to wonder what was going to happen \
next. First, she tried to look down and make out what she was coming to, but it \
was too dark to see anything; then she looked at the sides of the well, and \
noticed that they were filled with cupboards and book-shelves; here and there \
she saw maps and pictures hung upon pegs. She took down a jar from one of the \
shelves as she passed; it was labelled "ORANGE MARMALADE", but to her great \
disappointment it was empty: she did not like to drop the jar for fear of \
killing somebody underneath, so managed to put it into one of the cupboards as \
she fell past it.
"""

DECLARATION = """\
When in the Course of human events, it becomes necessary for one people to \
dissolve the political bands which have connected them with another, and to \
assume among the powers of the earth, the separate and equal station to which \
the Laws of Nature and of Nature's God entitle them, a decent respect to the \
opinions of mankind requires that they should declare the causes which impel \
them to the separation.

We hold these truths to be self-evident, that all men are created equal, that \
they are endowed by their Creator with certain unalienable Rights, that among \
these are Life, Liberty and the pursuit of Happiness.--That to secure these \
rights, Governments are instituted among Men, deriving their just powers from \
the consent of the governed, --That whenever any Form of Government becomes \
destructive of these ends, it is the Right of the People to alter or to abolish \
it, and to institute new Government, laying its foundation on such principles \
and organizing its powers in such form, as to them shall seem most likely to \
effect their Safety and Happiness. Prudence, indeed, will dictate that \
Governments long established should not be changed for light and transient \
causes; and accordingly all experience hath shewn, that mankind are more \
disposed to suffer, while evils are sufferable, than to right themselves by \
abolishing the forms to which they are accustomed. But when a long train of \
abuses and usurpations, pursuing invariably the same Object evinces a design to \
reduce them under absolute Despotism, it is their right, it is their duty, to \
throw off such Government, and to provide new Guards for their future \
security.--Such has been the patient sufferance of these Colonies; and such is \
now the necessity which constrains them to alter their former Systems of \
Government. The history of the present King of Great Britain is a history of \
repeated injuries and usurpations, all having in direct object the establishment \
of an absolute Tyranny over these States. To prove this, let Facts be submitted \
to a candid world.

He has refused his Assent to Laws, the most wholesome and necessary for the \
public good.

He has forbidden his Governors to pass Laws of immediate and pressing \
importance, unless suspended in their operation till his Assent should be \
obtained; and when so suspended, he has utterly neglected to attend to them.

He has refused to pass other Laws for the accommodation of large districts of \
people, unless those people would relinquish the right of Representation in the \
Legislature, a right inestimable to them and formidable to tyrants only.

He has called together legislative bodies at places unusual, uncomfortable, and \
distant from the depository of their public Records, for the sole purpose of \
fatiguing them into compliance with his measures.

He has dissolved Representative Houses repeatedly, for opposing with manly \
firmness his invasions on the rights of the people.

He has refused for a long time, after such dissolutions, to cause others to be \
elected; whereby the Legislative powers, incapable of Annihilation, have \
returned to the People at large for their exercise; the State remaining in the \
mean time exposed to all the dangers of invasion from without, and convulsions \
within.

He has endeavoured to prevent the population of these States; for that purpose \
obstructing the Laws for Naturalization of Foreigners; refusing to pass others \
to encourage their migrations hither, and raising the conditions of new \
Appropriations of Lands.

He has obstructed the Administration of Justice, by refusing his Assent to Laws \
for establishing Judiciary powers.
"""

MOBY_DICK = """\
Call me Ishmael. Some years ago--never mind how long precisely--having little or \
no money in my purse, and nothing particular to interest me on shore, I thought \
I would sail about a little and see the watery part of the world. It is a way I \
have of driving off the spleen and regulating the circulation. Whenever I find \
myself growing grim about the mouth; whenever it is a damp, drizzly November in \
my soul; whenever I find myself involuntarily pausing before coffin warehouses, \
and bringing up the rear of every funeral I meet; and especially whenever my \
hypos get such an upper hand of me, that it requires a strong moral principle to \
prevent me from deliberately stepping into the street, and methodically knocking \
people's hats off--then, I account it high time to get to sea as soon as I can. \
This is my substitute for pistol and ball. With a philosophical flourish Cato \
throws himself upon his sword; I quietly take to the ship. There is nothing \
surprising in this. If they but knew it, almost all men in their degree, some \
time or other, cherish very nearly the same feelings towards the ocean with me.

There now is your insular city of the Manhattoes, belted round by wharves as \
Indian isles by coral reefs--commerce surrounds it with her surf. Right and \
left, the streets take you waterward.
"""

PRIDE = """\
It is a truth universally acknowledged, that a single man in possession of a \
good fortune, must be in want of a wife.

However little known the feelings or views of such a man may be on his first \
entering a neighbourhood, this truth is so well fixed in the minds of the \
surrounding families, that he is considered as the rightful property of some one \
or other of their daughters.

"My dear Mr. Bennet," said his lady to him one day, "have you heard that \
Netherfield Park is let at last?"

Mr. Bennet replied that he had not.

"But it is," returned she; "for Mrs. Long has just been here, and she told me \
all about it."

Mr. Bennet made no answer.

"Do not you want to know who has taken it?" cried his wife impatiently.

"You want to tell me, and I have no objection to hearing it."

This was invitation enough.

"Why, my dear, you must know, Mrs. Long says that Netherfield is taken by a \
young man of large fortune from the north of England; that he came down on \
Monday in a chaise and four to see the place, and was so much delighted with it \
that he agreed with Mr. Morris immediately; that he is to take possession before \
Michaelmas, and some of his servants are to be in the house by the end of next \
week."
"""

GETTYSBURG = """\
Four score and seven years ago our fathers brought forth on this continent, a \
new nation, conceived in Liberty, and dedicated to the proposition that all men \
are created equal. Now we are engaged in a great civil war, testing whether that \
nation, or any nation so conceived and so dedicated, can long endure. We are met \
on a great battle-field of that war.
"""

PYTHON_CODE = '''\
import heapq


def shortest_path(graph, start, goal):
    """Return the cost of the cheapest path, or None if there is none."""
    queue = [(0, start)]
    best = {start: 0}
    while queue:
        cost, node = heapq.heappop(queue)
        if node == goal:
            return cost
        if cost > best[node]:
            continue
        for neighbour, weight in graph[node].items():
            candidate = cost + weight
            if candidate < best.get(neighbour, float("inf")):
                best[neighbour] = candidate
                heapq.heappush(queue, (candidate, neighbour))
    return None


def test_shortest_path():
    graph = {"a": {"b": 7, "c": 3}, "b": {}, "c": {"b": 2}}
'''

C_CODE = """\
#include <stdio.h>

static unsigned long gcd(unsigned long a, unsigned long b)
{
\twhile (b != 0) {
\t\tunsigned long t = a % b;
\t\ta = b;
\t\tb = t;
\t}
\treturn a;
}

int main(void)
{
\tprintf("%lu\\n", gcd(1071, 462));
"""

CHAT_SHORT = """\
<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
I have four apples and a friend gives me three more. Two of them turn out to be \
rotten, so I throw those away. How many apples can I put into the cake? Explain \
how you got there, one step at a time, and end with the number alone on the last \
line. Please be brief and check your sum.<|im_end|>
<|im_start|>assistant
"""

CHAT_LONG = """\
<|im_start|>system
You are a patient gardener who answers in short, plain sentences.<|im_end|>
<|im_start|>user
My tomato plants have yellow leaves near the ground. They \
stand in big pots on a sunny balcony, and I water them every single evening. \
What is wrong with them?<|im_end|>
<|im_start|>assistant
Old leaves turn yellow first when a plant is short of nitrogen. Too much water \
does the same. Push a finger into the soil: if it is wet an inch down, wait a \
day or two before you water again. If it is dry, water well and feed the plant \
once a week. Keep the leaves themselves dry, and water in the morning.<|im_end|>
<|im_start|>user
The soil was dry, and I've fed them now. Should I also cut the yellow leaves \
off, or do I leave them on until they fall? And how long will it take until I \
can tell that the plants are getting better?<|im_end|>
<|im_start|>assistant
"""

# (name, text, tokens).  A text with a number of tokens is cut to that many;
# one with None is taken whole.
PROMPTS = [
    ("one-token", "Hello", 1),
    ("two-tokens", "Once upon", 2),
    ("three-tokens", "def main(", 3),
    ("capital-of-france", "The capital of France is", 5),
    ("arithmetic", "12 + 30 = 42", 8),
    ("french", "Il était une fois, dans un petit village au bord de la mer, une", 15),
    ("emoji", "I love pizza 🍕 and coffee ☕\ufe0f! Today I went", 16),
    ("url", "Read more at https://example.org/docs/index.html?page=2#top and", 17),
    ("json", '{"name": "Ada", "born": 1815, "languages": ["English", "French"], "title": "The', 31),
    ("digits", "2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53", 32),
    ("mixed-scripts", "Hello, Привет, 你好, こんにちは, مرحبا, नमस्ते, Γειά σου: these are", 33),
    ("gettysburg", GETTYSBURG, 64),
    ("c-code", C_CODE, 65),
    ("chat-short", CHAT_SHORT, None),
    ("python-code", PYTHON_CODE, 128),
    ("chat-long", CHAT_LONG, None),
    ("moby-dick", MOBY_DICK, 256),
    ("pride-and-prejudice", PRIDE, 257),
    ("alice", ALICE, 512),
    ("declaration", DECLARATION, 700),
]


# --------------------------------------------------------------------------
# Texts for the tokenizer

TOKENIZER_TEXTS = [
    # Nothing, and white space in all mixes.
    "",
    " ",
    "  ",
    "   ",
    "    ",
    "\n",
    "\n\n",
    "\n\n\n\n\n",
    " \n",
    "\n ",
    " \n \n ",
    "  \n\n  \n",
    "\t",
    "\t\t\t",
    " \t \t",
    "\t\n\t\n",
    "\r\n",
    "\r\n\r\n",
    "\r",
    "\v\f",
    " hello",
    "  hello",
    "   hello",
    "hello ",
    "hello   ",
    "hello  world",
    "hello     world",
    "hello\n\n  world",
    "hello \n world",
    "hello\tworld\t\tagain",
    "line one\r\nline two\r\n\r\nline four\r\n",
    "a\nb\rc\r\nd",
    " leading and trailing ",
    "tabs\tthen  spaces \t then\n\tboth",
    # Digits.
    "0",
    "1234567890",
    "3.14159",
    " 42",
    "  42",
    "a1b22c333",
    "1,000,000 + 2 000 000",
    "-273.15°C",
    "2024-02-29T23:59:60Z",
    "x²+y³=½ Ⅷ ① ٣٤٥ १२३ 𝟘𝟙",
    "7 8  9   10",
    # Words, contractions, punctuation.
    "The quick brown fox jumps over the lazy dog.",
    "I'm you're he's she'd we'll they've don't",
    "I'M YOU'RE HE'S SHE'D WE'LL THEY'VE DON'T",
    "'s 't 're 've 'm 'll 'd 'S 'LL",
    "'tis the season, y'all'd've said",
    "rock 'n' roll 'twas ''''s",
    "I\u2019m using a curly apostrophe, isn\u2019t it?",
    "Hello, world! How's it going?",
    "...!!!???---***___",
    " ... !!! ???",
    "\"quoted\" 'single' `back` \u00abguillemets\u00bb \u201ccurly\u201d",
    "(a)[b]{c}<d>",
    "snake_case camelCase PascalCase SCREAMING_CASE kebab-case",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "pneumonoultramicroscopicsilicovolcanoconiosis antidisestablishmentarianism",
    "qwxzjkvbpyghfcmwlqzxjvkqpwmzn",
    "lowercaseandnospaceswhatsoeverjustonelongrunofenglishwordsgluedtogether",
    "ALL CAPS AND MiXeD cAsE",
    # URLs, code, markup.
    "https://www.example.com:8080/a/b_c/d-e.html?x=1&y=%20two#frag",
    "mailto:someone+tag@sub.example.co.uk",
    "C:\\Users\\me\\file.txt and /usr/local/bin/../lib",
    "for (int i = 0; i < n; ++i) {\n    sum += a[i] * b[i];\n}\n",
    "def f(x):\n\treturn {'a': x**2, \"b\": [1, 2, 3]}\n\n\nprint(f(3))",
    "if x:\n        deep()\n            deeper()\n",
    "<div class=\"a b\"><p>Hi &amp; bye</p></div><!-- note -->",
    "{\"k\": [null, true, -1.5e-10], \"s\": \"\\u00e9\\n\"}",
    "SELECT * FROM t WHERE a <> 'b''c' -- end",
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n",
    "$\\frac{a}{b} \\neq \\sum_{i=0}^{n} x_i$",
    "0xDEADBEEF 0b1010 1e9 1_000 #ffcc00",
    # Accents, combining marks, other scripts.
    "café naïve Ångström Dvořák Łódź İstanbul",
    "cafe\u0301 nai\u0308ve A\u030angstro\u0308m",
    "Z\u0351\u036b\u0343\u036a\u0302a\u0328\u0335\u0317l\u0321\u0353\u031eg\u0322o\u0309",
    "\u0301 starts with a combining mark",
    "Straße ẞ ſ ﬁ ﬂ Ǆ",
    "你好，世界！今天天气很好。",
    "日本語のテキストです。カタカナとひらがな、漢字。ﾊﾝｶｸ",
    "안녕하세요 세계 \u1112\u1161\u11ab",
    "مرحبا بالعالم، كيف الحال؟ ١٢٣",
    "שלום עולם שָׁלוֹם",
    "नमस्ते दुनिया, आप कैसे हैं?",
    "สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง",
    "Привет, мир! Ёлка, съёмка.",
    "Γειά σου Κόσμε — ᾧ τινι",
    "Xin chào thế giới, tiếng Việt",
    "ქართული հայերեն አማርኛ ខ្មែរ မြန်မာ தமிழ் ᐃᓄᒃᑎᑐᑦ",
    "Latin и кириллица 混在 مع العربية mixed",
    "раураl vs paypal",  # Cyrillic letters that look Latin
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝓈𝒸𝓇𝒾𝓅𝓉 ｆｕｌｌｗｉｄｔｈ",
    "𐍈 𓀀 𠜎 𝄞 🂡",
    # Emoji.
    "😀",
    "Hi 😀😃😄 there",
    "👩\u200d👩\u200d👧\u200d👦 👩🏽\u200d🚀 🏳\ufe0f\u200d🌈",
    "🇫🇷🇯🇵🇧🇷 1\ufe0f\u20e3 ☕\ufe0f ❤\ufe0f",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    # Odd spaces, invisible characters, controls.
    "a\u00a0b\u00a0\u00a0c \u00a0 d",
    "全角\u3000スペース\u3000\u3000二つ",
    "thin\u2009hair\u200aen\u2002em\u2003ideo\u3000nnbsp\u202fmath\u205fogham\u1680end",
    "zero\u200bwidth\u200cnon\u200djoiner\ufeffbom\u2060word",
    "\ufeffstarts with a byte order mark",
    "rtl \u202eoverride\u202c and \u2066isolate\u2069",
    "line\u2028separator\u2029paragraph\u0085next line",
    "soft\u00adhyphen non\u2011breaking",
    "nul\u0000in the middle \u0001\u0002\u0003 \u0007bell \u001b[31mred\u001b[0m \u007f",
    "\u001c\u001e\u001f separators \u001c between",
    "c1 \u0080\u0081\u0090\u009f controls",
    # Control characters whose bytes the vocabulary does not have, alone, next
    # to letters, and between characters that would merge without them.
    "\u0004",
    "a\u0004b \u0006 \u0013\u0014 \u0016\u001d",
    "(\u0004) =\u0006= \u001d\u001d",
    # Valid UTF-8 at the edges of what is allowed.
    "\ufffd\ufffd replacement",
    "\ud7ff\ue000\uf8ff\ufdd0\ufffe\uffff",
    "\U00010000\U0001ffff\U000f0000\U0010ffff",
    "\U00040000x\U0007ffff \U00080000y\U000bffff",  # lead bytes not in the vocabulary
    "Ã©tÃ© â€œmojibakeâ€\u009d Ã¼",
    "\u007f\u0080\u07ff\u0800",
    # Special tokens.
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    " <|im_start|> user <|im_end|> ",
    "  <|im_end|>  ",
    "\n<|im_end|>\n\n<|im_end|>\n",
    "a<|im_end|>b<|endoftext|>c",
    "<|im_start|><|im_start|><|im_end|><|im_end|>",
    "<|im_start|",
    "|im_start|>",
    "<<|im_start|>>",
    "<|IM_START|> <| im_start |> <|im_start |>",
    "<|im_<|im_end|>start|>",
    "<repo_name>me/project<file_sep>src/main.c<filename>x <reponame><gh_stars>100",
    "<issue_start><issue_comment>text<issue_closed> <jupyter_start><jupyter_text>"
    "<jupyter_code><jupyter_output><jupyter_script><empty_output>",
    "1<|im_end|>2 <|im_end|>'s",
    "Ġ Ċ ĉ Ġhello Ā",  # the stand-ins of the byte alphabet as text
    "</s> <s> <unk> <pad> [INST] <|eot_id|>",  # no tokens of this model
    # Long runs.
    "a" * 100,
    "a" * 2000,
    " " * 2000,
    "\n" * 500,
    "\t" * 257,
    "=" * 333,
    "-" * 1024,
    "0" * 300,
    "ab" * 500,
    "é" * 200,
    "好" * 150,
    "😀" * 65,
    "!?" * 128,
    " a" * 200,
    "\r\n" * 100,
    "x" + " " * 129 + "y" + " \n" * 40 + "z",
    "haha" * 64 + " " + "lo" * 99 + "l",
]
