"""Task words that open a user turn; the model itself writes the rest.

Written for this project. They steer what the model asks itself, so that its questions cover more
kinds of task than it would choose freely. `{topic}`, `{name}`, … are filled from the lists below.
"""

from __future__ import annotations

TOPICS = """photosynthesis|inflation|the French Revolution|black holes|a small bakery
|climate change|the human heart|volcanoes|recursion|binary search|the stock market|a lighthouse
|gravity|vaccines|the Roman Empire|electric cars|solar panels|chess|jazz music|the printing press
|DNA|antibiotics|the moon|ocean currents|supply and demand|a job interview|remote work
|learning to cook|gardening|time management|artificial intelligence|neural networks|databases
|operating systems|encryption|the water cycle|earthquakes|dinosaurs|democracy|human rights
|globalization|urban planning|public transport|renewable energy|nuclear power|plate tectonics
|evolution|genetics|magnetism|sound waves|chemical bonds|acids and bases|thermodynamics|relativity
|quantum mechanics|statistics|probability|linear equations|prime numbers|geometry|the number pi
|a haunted house|a lost dog|a train journey|a mountain village|a robot who paints|a detective
|a pirate captain|the last library|friendship|courage|grief|honesty|happiness|justice|free will
|consciousness|beauty|language|poetry|theatre|film making|photography|architecture|the Renaissance
|the Cold War|the Silk Road|the Industrial Revolution|ancient Egypt|the Vikings|the Ottoman Empire
|the Great Depression|World War I|the Space Race|immigration|education|health care|sleep|nutrition
|exercise|stress|meditation|allergies|diabetes|the immune system|the brain|memory|dreams|birds
|bees|whales|wolves|coral reefs|rainforests|deserts|rivers|mountains|islands|the weather
|hurricanes|football|tennis|the Olympics|swimming|cycling|a marathon|a birthday party|a wedding
|a holiday in Italy|Japan|Brazil|Kenya|India|Canada|Berlin|Paris|London|New York|Sydney|coffee
|chocolate|bread|tea|wine|smartphones|social media|video games|the internet|cloud computing
|cybersecurity|blockchain|3D printing|drones|satellites|the Mars rovers|telescopes|money|taxes
|insurance|banks|budgeting|marketing|leadership|teamwork|negotiation|public speaking|a start-up
|customer service|a new product|an online shop|fashion|furniture|painting|sculpture|the violin
|opera|hip hop|folk tales|myths|religion|philosophy|ethics|law|elections|newspapers|advertising
|recycling|plastic waste|water|farming|fishing|forests|animals|pets|children|parents|ageing
|retirement|travel|airports|ships"""

NAMES = """Anna|Ben|Carla|David|Emma|Farid|Grace|Hugo|Ines|Jack|Kira|Leo|Mia|Noah|Olga|Paul
|Quinn|Rosa|Sam|Tina|Umar|Vera|Will|Xin|Yara|Zoe|Mr. Baker|Mrs. Chen|Luis|Maria|Peter|Sofia|Tom
|Nadia|Omar|Lucy|Greg|Helen|Ivan|Judy|Kevin|Laura|Martin|Nina|Oscar|Patricia|Ralph|Susan|Tony
|Wendy"""

ROLES = """a ship's doctor in 1820|a grumpy librarian|a weather forecaster
|a famous chess player|a medieval knight|a talking cat|a physics teacher|a museum guide
|an astronaut|a film critic|a stand-up comedian|a tour guide|a wise old farmer|a lawyer
|a detective|a time traveller|a robot|a chef|a football coach|a poet|a superhero|a scientist
|a famous inventor|an economist|a mayor"""

LANGUAGES = "Python|Python|Python|C++|Java|JavaScript|SQL|HTML|C|Rust|Go"

CHAT = """Write a short story about {topic}|Write an email to {name} about {topic}
|Write a blog post about {topic}|Write a persuasive letter about|Write a product description for
|Write a poem about {topic}|Write an outline for|Compose a|Draft an|Describe {topic}
|Edit this text:|Rewrite the following paragraph|Imagine you are {role}.|Pretend to be {role} and
|Act as {role}.|You are {role}. Explain {topic}|Take the part of {role}|Play the role of {role}
|Suppose that|If {name} is taller than|Three friends|There are four|A man walks|Which word
|Is it true that|What would happen if|How many|Think step by step:|Explain {topic}
|Explain how {topic}|Explain the difference between {topic} and {topic}|What is {topic}
|What are the main causes of {topic}|What are the advantages and disadvantages of {topic}
|Compare {topic} with {topic}|Discuss the role of {topic} in|Discuss how {topic}
|How does {topic} affect|How do {topic}|How can|Why do|Why is {topic}|Give an overview of {topic}
|Give me five ideas for {topic}|List three|Provide examples of|Analyze the relationship between
|Identify the|Can you explain {topic}|Could you help me with {topic}?|I need advice about {topic}.
|I am planning|My friend {name}|Please tell me about {topic}|Tell me|Create a|Design a|Plan a
|Summarize the history of {topic}|In the field of {topic}, what|Consider a|Argue for or against"""

CODE = """Write a {language} function that|Write a {language} program to
|Implement a {language}|Write a function to find|Develop a {language} program that|How do I sort
|Write a regular expression|Fix the bug in this {language} code:|Explain this {language} code:
|Given an array of|Write a class that|Write a {language} script that reads
|Implement an algorithm to|Write a query that|What is the output of the following {language} code?
|Write a simple web page that"""

MATHS = """{name} has {number}|{name} buys {number}|{name} bought|{name} is|{name} wants to
|{name} went to|{name} and {name}|{name} earns ${number}|{name} reads|{name} runs|{name} makes
|{name} needs|A farmer has {number}|A bakery sells {number}|A train travels
|A box contains {number}|A school has {number}|A car uses|A shop sells|In a class of {number}
|There are {number}|There were {number}|Every day, {name}|Each week, {name}|If {name} has|If a
|The price of a|The sum of|The ratio of|Half of the|Solve for x:|Find the area of
|Find the value of|Calculate|What is the probability that|The perimeter of a|Given that f(x) =
|How much|{number} students|Two friends|At the store, {name}|During the summer, {name}
|On Monday, {name}"""

FACTS = """who|who is|who was the|who wrote|who sang|who played|who plays|who won
|who invented|who sings|who made the|when|when was|when did|when does|when is the|where|where is
|where was|where do|where did the|what is the|what is the name of|what was|what does|what year
|what type of|what country|which|which country|which team|how many|how many episodes|how long
|how old|how tall is|how much|how did|name the|the first|what are the|why did|why is|Who|Who was
|When was|Where is|What is|What was the|Which|How many|How long does|In which|In what year
|What happened to|Who is the|What does the|how does|what language|what does it mean when|how is
|is the|who discovered|when was the last time|who was the first|where does the name|what part of
|what color|in which city|where was the movie"""

LISTS = """Classify the following|Extract the names from the following text:
|Sort these items into|Given the following reviews, rate each from 1 to 5:\\n1.
|Find the key facts in this paragraph:|Answer with one word:|Return the result as JSON:
|Make a table of|Label each sentence as
|Identify the people, places and dates in the text below.\\n|Correct the grammar:
|Read the following and count|Group these words by topic:|Given a list of|Convert the following
|Which of the following|Given these categories|From the text below, extract|Fill in the blanks:
|Analyze the following customer feedback:"""

TRANSLATE = """Translate German to English:|Translate German to English:
|Translate German to English:|Translate German to English:
|Translate the following German text to English:|Translate this sentence from German to English:
|Translate into English:|What does this mean:|Translate English to German:
|Translate French to English:"""

GERMAN = """Die|Der|Das|Ein|Eine|In|Im|Am|Mit|Auch|Wir|Sie|Es|Er|Ich|Nach|Bei|Für|Auf|Seit
|Wenn|Aber|Nur|So|Als|Zu|Von|Vor|Über|Unter|Zwischen|Gegen|Ohne|Durch|Um|Dass|Diese|Dieser|Dieses
|Viele|Alle|Der Minister sagte|Die Regierung hat|Das Hotel liegt|Die Polizei teilte mit
|In der Stadt wurde|Das Zimmer war|Die Mannschaft gewann|Nach dem Spiel|Im vergangenen Jahr
|Der Trainer|Die Schule am|Das Unternehmen will|Am Montag begann|Vor dem Haus|Die Kinder spielten
|Der Fluss|Das Wetter bleibt|Die Straße wurde|Mehr als hundert Menschen|Ein Sprecher erklärte
|Die Ausstellung zeigt|Wer das Museum besucht|Der Zug nach|Die Preise für|Das neue Buch
|Seit vielen Jahren|Zum ersten Mal|Laut einer Studie|Unsere Gäste|Das Restaurant bietet
|Die Wohnung verfügt über|Der Bürgermeister|Die Band spielte|Nach Angaben der|Im Sommer
|Die Bundesregierung|Trotz der Kritik|Während der Sitzung|Die Stiftung|Das Gericht entschied"""

NEWS = """Police in {place}|A {age}-year-old man from {place}|A woman in {place} has
|({place})|By {name} Miller. A|The government of {place}|Scientists at the University of {place}
|It was|A new study|Residents of {place}|The mayor of {place} said|After more than ten years,
|Thousands of|Manchester United|Liverpool|The head coach|A judge in {place}|The president
|Officials said on|When {name} Parker|For years,|Two people were|An investigation|A teenager from
|Doctors in {place}|The company announced|A mother of three|Firefighters|The airline|The actor
|The singer|Researchers|Parents in {place}|A school in {place}|The prime minister|Fans of
|Former champion|The family of|In an interview,|Last Friday,|On Sunday afternoon,|Football:
|Breaking:|A court in {place}|The team"""

PLACES = """London|Texas|Ohio|Leeds|Florida|Sydney|Toronto|Chicago|Madrid|Moscow|Kent|Boston
|Paris|Atlanta|Glasgow|Cardiff|Dublin|Oregon|Nairobi|Delhi|Tokyo|Cairo|Iowa|Dallas|Bristol|Berlin"""

PASSAGES = """The history of {topic}|{topic} is|{topic} was|The {topic} is a
|In {place}, {topic}|{name} ({age}) was|{place} is a|The first {topic}|The album|The film
|The novel|The television series|The song "|The battle of|The river|The species
|The club was founded|The company was founded in|The building|The term {topic}|The word
|Under the constitution|The human|In biology,|In law,|In economics,|In {place},
|During the nineteenth century|The season|The episode|The character"""

PASSAGE_QUESTIONS = """who|when|where|what|which|how|why|how many|what is|who was|when did|what was
|Who|When|Where|What|Which|How|Why|How many|What is|Who was|When did|Describe|Explain|Based on the
|According to the passage, what|What does the text say about|Using the text above, explain"""

SUMMARY_OPENERS = """Summarize: |Summarize: |Summarize: |Summarize the following article: |\
Summarize:|Please summarize this text: |Give a short summary of this article: """


ARTICLE_REQUESTS = """Write a long news article.|Write a detailed newspaper report about {topic}.
|Write a long encyclopedia article about {topic}.
|Write a magazine feature about {name} and {topic}.
|Write a long article about {place} for a newspaper.|Write the biography of {name} in detail."""
"""Most passages are written as an answer to one of these, which keeps them on one subject."""


def words(block: str) -> list[str]:
    """Split one of the blocks above at "|"; line breaks are layout only."""
    return [part.replace("\n", "").replace("\\n", "\n") for part in block.split("|")]
