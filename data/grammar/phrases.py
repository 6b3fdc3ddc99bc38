"""Fixed everyday phrases, written by hand."""

from __future__ import annotations

from grammar.model import Triple, triples

PHRASES: list[Triple] = triples("""
Hello! | Ciao! | 你好！
Good morning! | Buongiorno! | 早上好！
Good evening! | Buonasera! | 晚上好！
Good night! | Buonanotte! | 晚安！
Goodbye! | Arrivederci! | 再见！
See you tomorrow! | A domani! | 明天见！
See you soon! | A presto! | 回头见！
See you on Monday! | A lunedì! | 星期一见！
Welcome! | Benvenuti! | 欢迎！
Welcome to our house! | Benvenuti a casa nostra! | 欢迎来到我们家！
Come in, please. | Entra, per favore. | 请进。
Sit down, please. | Siediti, per favore. | 请坐。
Thank you! | Grazie! | 谢谢！
Thank you very much! | Grazie mille! | 非常感谢！
Thank you for your help. | Grazie per il tuo aiuto. | 谢谢你的帮助。
Thank you for the gift. | Grazie per il regalo. | 谢谢你的礼物。
You are welcome. | Prego. | 不客气。
Excuse me. | Scusa. | 打扰一下。
I am sorry. | Mi dispiace. | 对不起。
It doesn't matter. | Non importa. | 没关系。
No problem. | Nessun problema. | 没问题。
How are you? | Come stai? | 你好吗？
I am fine, thank you. | Sto bene, grazie. | 我很好，谢谢。
And you? | E tu? | 你呢？
What is your name? | Come ti chiami? | 你叫什么名字？
Nice to meet you. | Piacere di conoscerti. | 很高兴认识你。
Where are you from? | Di dove sei? | 你是哪里人？
How old are you? | Quanti anni hai? | 你多大了？
What is your job? | Che lavoro fai? | 你做什么工作？
Are you married? | Sei sposato? | 你结婚了吗？
Do you have any children? | Hai figli? | 你有孩子吗？
Do you have any brothers? | Hai fratelli? | 你有兄弟吗？
Yes. | Sì. | 是的。
No. | No. | 不是。
Yes, of course. | Sì, certo. | 当然可以。
No, thank you. | No, grazie. | 不用了，谢谢。
Maybe. | Forse. | 也许吧。
All right. | Va bene. | 好的。
I agree. | Sono d'accordo. | 我同意。
I don't agree. | Non sono d'accordo. | 我不同意。
You are right. | Hai ragione. | 你说得对。
You are wrong. | Hai torto. | 你错了。
I know. | Lo so. | 我知道。
I don't know. | Non lo so. | 我不知道。
I understand. | Capisco. | 我明白了。
I don't understand. | Non capisco. | 我不明白。
I don't remember. | Non mi ricordo. | 我不记得了。
I have forgotten. | Ho dimenticato. | 我忘了。
Can you repeat, please? | Puoi ripetere, per favore? | 请再说一遍，好吗？
Can you speak more slowly? | Puoi parlare più lentamente? | 你能说慢一点儿吗？
Do you speak Italian? | Parli italiano? | 你会说意大利语吗？
I speak a little Chinese. | Parlo un poco di cinese. | 我会说一点儿中文。
What does this word mean? | Che cosa significa questa parola? | 这个词是什么意思？
How do you say this in Italian? | Come si dice questo in italiano? | 这个用意大利语怎么说？
How do you say this in Chinese? | Come si dice questo in cinese? | 这个用中文怎么说？
How do you write this word? | Come si scrive questa parola? | 这个词怎么写？
Can you help me? | Puoi aiutarmi? | 你能帮我吗？
Help! | Aiuto! | 救命！
Be careful! | Attento! | 小心！
Hurry up! | Sbrigati! | 快点儿！
Wait a moment, please. | Aspetta un momento, per favore. | 请等一下。
Let's go! | Andiamo! | 我们走吧！
Let's begin. | Cominciamo. | 我们开始吧。
Let's go to the cinema. | Andiamo al cinema. | 我们去看电影吧。
Let's go home. | Andiamo a casa. | 我们回家吧。
Let's eat! | Mangiamo! | 我们吃饭吧！
Congratulations! | Congratulazioni! | 恭喜！
Happy birthday! | Buon compleanno! | 生日快乐！
Happy New Year! | Buon anno! | 新年快乐！
Merry Christmas! | Buon Natale! | 圣诞快乐！
Good luck! | Buona fortuna! | 祝你好运！
Have a good trip! | Buon viaggio! | 一路平安！
Have a good weekend! | Buon fine settimana! | 周末愉快！
Have a good day! | Buona giornata! | 祝你今天愉快！
Enjoy your meal! | Buon appetito! | 祝你胃口好！
Cheers! | Salute! | 干杯！
Get well soon! | Guarisci presto! | 祝你早日康复！
Sleep well! | Dormi bene! | 睡个好觉！
What a beautiful day! | Che bella giornata! | 今天天气真好！
What a beautiful house! | Che bella casa! | 多漂亮的房子啊！
What a beautiful song! | Che bella canzone! | 多好听的歌啊！
What time is it? | Che ore sono? | 现在几点？
What day is it today? | Che giorno è oggi? | 今天星期几？
Today is Monday. | Oggi è lunedì. | 今天星期一。
Today is Tuesday. | Oggi è martedì. | 今天星期二。
Today is Wednesday. | Oggi è mercoledì. | 今天星期三。
Today is Thursday. | Oggi è giovedì. | 今天星期四。
Today is Friday. | Oggi è venerdì. | 今天星期五。
Today is Saturday. | Oggi è sabato. | 今天星期六。
Today is Sunday. | Oggi è domenica. | 今天星期天。
Tomorrow is Monday. | Domani è lunedì. | 明天星期一。
Yesterday was Sunday. | Ieri era domenica. | 昨天是星期天。
When is your birthday? | Quando è il tuo compleanno? | 你的生日是什么时候？
It is late. | È tardi. | 很晚了。
It is early. | È presto. | 还早。
It is midnight. | È mezzanotte. | 现在是午夜。
It is noon. | È mezzogiorno. | 现在是中午。
It is raining. | Sta piovendo. | 正在下雨。
It is snowing. | Sta nevicando. | 正在下雪。
It is cold today. | Oggi fa freddo. | 今天很冷。
It is hot today. | Oggi fa caldo. | 今天很热。
It is windy. | C'è vento. | 刮风了。
The sun is shining. | C'è il sole. | 出太阳了。
The weather is bad today. | Oggi fa brutto tempo. | 今天天气不好。
What is the weather like? | Che tempo fa? | 天气怎么样？
Take an umbrella with you. | Porta con te un ombrello. | 带上雨伞吧。
How much is it? | Quanto costa? | 多少钱？
It is too expensive. | È troppo caro. | 太贵了。
It is very cheap. | È molto economico. | 很便宜。
I am just looking, thank you. | Sto solo guardando, grazie. | 我只是看看，谢谢。
Can I try it on? | Posso provarlo? | 我可以试一下吗？
Do you have a bigger size? | Avete una taglia più grande? | 有大一点儿的吗？
Do you have a smaller size? | Avete una taglia più piccola? | 有小一点儿的吗？
I will take it. | Lo prendo. | 我买这个。
Can I pay by card? | Posso pagare con la carta? | 可以刷卡吗？
I would like to pay in cash. | Vorrei pagare in contanti. | 我想付现金。
Here is your change. | Ecco il resto. | 这是找您的钱。
Can I have the receipt? | Posso avere lo scontrino? | 可以给我收据吗？
The shop is closed today. | Il negozio è chiuso oggi. | 商店今天不开门。
What time does the shop open? | A che ora apre il negozio? | 商店几点开门？
What time does the museum close? | A che ora chiude il museo? | 博物馆几点关门？
The bill, please. | Il conto, per favore. | 请结账。
The menu, please. | Il menù, per favore. | 请给我菜单。
A table for two, please. | Un tavolo per due, per favore. | 请给我们一张两个人的桌子。
We have a reservation. | Abbiamo una prenotazione. | 我们有预订。
What would you like to drink? | Che cosa vuoi da bere? | 你想喝点儿什么？
What would you like to eat? | Che cosa vuoi da mangiare? | 你想吃点儿什么？
Are you ready to order? | Siete pronti per ordinare? | 你们准备好点菜了吗？
I am a vegetarian. | Sono vegetariano. | 我吃素。
I don't eat meat. | Non mangio carne. | 我不吃肉。
The food is delicious. | Il cibo è delizioso. | 菜很好吃。
The soup is too salty. | La zuppa è troppo salata. | 汤太咸了。
The coffee is cold. | Il caffè è freddo. | 咖啡凉了。
The tea is very hot. | Il tè è molto caldo. | 茶很烫。
This wine is very good. | Questo vino è molto buono. | 这种葡萄酒很好喝。
Can I have some water? | Posso avere dell'acqua? | 可以给我一点儿水吗？
Dinner is ready. | La cena è pronta. | 晚饭做好了。
Breakfast is at eight. | La colazione è alle otto. | 八点吃早饭。
I am full. | Sono sazio. | 我吃饱了。
Where is the station? | Dov'è la stazione? | 车站在哪里？
Where is the toilet? | Dov'è il bagno? | 洗手间在哪里？
Where is the exit? | Dov'è l'uscita? | 出口在哪里？
Where is the bus stop? | Dov'è la fermata dell'autobus? | 公共汽车站在哪里？
How do I get to the station? | Come arrivo alla stazione? | 去车站怎么走？
How do I get to the museum? | Come arrivo al museo? | 去博物馆怎么走？
Turn left. | Gira a sinistra. | 向左拐。
Turn right. | Gira a destra. | 向右拐。
Go straight on. | Vai sempre dritto. | 一直往前走。
Is it far? | È lontano? | 远吗？
It is very near. | È molto vicino. | 很近。
It is on the left. | È a sinistra. | 在左边。
It is on the right. | È a destra. | 在右边。
I am lost. | Mi sono perso. | 我迷路了。
I have lost my passport. | Ho perso il passaporto. | 我的护照丢了。
I have lost my keys. | Ho perso le chiavi. | 我的钥匙丢了。
Call a taxi, please. | Chiama un taxi, per favore. | 请叫一辆出租车。
A single ticket, please. | Un biglietto di sola andata, per favore. | 请给我一张单程票。
A return ticket, please. | Un biglietto di andata e ritorno, per favore. | 请给我一张往返票。
Which platform does the train leave from? | Da quale binario parte il treno? | 火车从哪个站台出发？
The train is late. | Il treno è in ritardo. | 火车晚点了。
The flight has been cancelled. | Il volo è stato cancellato. | 航班取消了。
Is this seat free? | Questo posto è libero? | 这个座位有人吗？
I have a single room. | Ho una camera singola. | 我订了一个单人间。
Do you have a free room? | Avete una camera libera? | 有空房间吗？
I would like a double room. | Vorrei una camera doppia. | 我想要一个双人间。
How long will you stay? | Quanto tempo resterai? | 你会待多久？
Here is my passport. | Ecco il mio passaporto. | 这是我的护照。
Where are my suitcases? | Dove sono le mie valigie? | 我的行李箱在哪里？
I am on holiday. | Sono in vacanza. | 我在度假。
I am a tourist. | Sono un turista. | 我是游客。
I am here for work. | Sono qui per lavoro. | 我是来出差的。
Can you take a photo of us? | Puoi farci una foto? | 你能给我们拍张照吗？
The view is wonderful. | Il panorama è meraviglioso. | 风景很美。
What is your phone number? | Qual è il tuo numero di telefono? | 你的电话号码是多少？
Who is speaking? | Chi parla? | 您是哪位？
I will call you later. | Ti chiamo più tardi. | 我过一会儿给你打电话。
Send me an email. | Mandami un'e-mail. | 给我发电子邮件吧。
The phone is ringing. | Il telefono sta squillando. | 电话响了。
My phone doesn't work. | Il mio telefono non funziona. | 我的手机坏了。
The computer is broken. | Il computer è rotto. | 电脑坏了。
There is no internet here. | Qui non c'è internet. | 这里没有网络。
Open the book, please. | Apri il libro, per favore. | 请打开书。
Open the book at page ten. | Apri il libro a pagina dieci. | 把书翻到第十页。
Listen and repeat. | Ascolta e ripeti. | 听一听，跟着说。
Read the text, please. | Leggi il testo, per favore. | 请读课文。
Do you have any questions? | Hai domande? | 你有问题吗？
I have a question. | Ho una domanda. | 我有一个问题。
The question is difficult. | La domanda è difficile. | 这个问题很难。
The answer is correct. | La risposta è giusta. | 答案是对的。
The answer is wrong. | La risposta è sbagliata. | 答案是错的。
I don't know the answer. | Non so la risposta. | 我不知道答案。
The exam was easy. | L'esame era facile. | 考试很容易。
The exam was difficult. | L'esame era difficile. | 考试很难。
I passed the exam. | Ho superato l'esame. | 我通过了考试。
Who is absent today? | Chi è assente oggi? | 今天谁没来？
The lesson is over. | La lezione è finita. | 下课了。
Silence, please. | Silenzio, per favore. | 请安静。
Write it on the board. | Scrivilo alla lavagna. | 写在黑板上。
May I go out? | Posso uscire? | 我可以出去吗？
May I come in? | Posso entrare? | 我可以进来吗？
May I sit here? | Posso sedermi qui? | 我可以坐这里吗？
May I open the window? | Posso aprire la finestra? | 我可以打开窗户吗？
May I ask a question? | Posso fare una domanda? | 我可以问一个问题吗？
May I use your phone? | Posso usare il tuo telefono? | 我可以用你的手机吗？
I work in Milan. | Lavoro a Milano. | 我在米兰工作。
I am looking for a job. | Sto cercando un lavoro. | 我在找工作。
I found a new job. | Ho trovato un nuovo lavoro. | 我找到了一份新工作。
I have a lot of work. | Ho molto lavoro. | 我有很多工作。
I don't have time. | Non ho tempo. | 我没有时间。
I don't have any money. | Non ho soldi. | 我没有钱。
I am at work. | Sono al lavoro. | 我在上班。
The meeting is over. | La riunione è finita. | 会议结束了。
The meeting has been postponed. | La riunione è stata rinviata. | 会议推迟了。
I like my job. | Mi piace il mio lavoro. | 我喜欢我的工作。
I am very happy. | Sono molto felice. | 我非常高兴。
I love you. | Ti amo. | 我爱你。
I miss you. | Mi manchi. | 我想你。
I miss my family. | Mi manca la mia famiglia. | 我想家人。
Don't worry. | Non preoccuparti. | 别担心。
Don't cry. | Non piangere. | 别哭。
Don't be afraid. | Non avere paura. | 别害怕。
Don't forget. | Non dimenticare. | 别忘了。
I am in a hurry. | Ho fretta. | 我赶时间。
I am bored. | Mi annoio. | 我很无聊。
I am joking. | Sto scherzando. | 我在开玩笑。
I am serious. | Sono serio. | 我是认真的。
I have an idea. | Ho un'idea. | 我有一个主意。
It is a good idea. | È una buona idea. | 这是个好主意。
It is a secret. | È un segreto. | 这是秘密。
It is not true. | Non è vero. | 这不是真的。
It is important. | È importante. | 这很重要。
It is impossible. | È impossibile. | 这不可能。
It is easy. | È facile. | 这很容易。
It is not easy. | Non è facile. | 这不容易。
It is dangerous. | È pericoloso. | 这很危险。
It is very interesting. | È molto interessante. | 这很有意思。
It is my fault. | È colpa mia. | 这是我的错。
It is your turn. | Tocca a te. | 轮到你了。
What happened? | Che cosa è successo? | 发生了什么事？
What is this? | Che cos'è questo? | 这是什么？
Who is it? | Chi è? | 是谁？
Who is that man? | Chi è quell'uomo? | 那个男人是谁？
Who is that woman? | Chi è quella donna? | 那个女人是谁？
Why not? | Perché no? | 为什么不呢？
Why are you laughing? | Perché stai ridendo? | 你为什么笑？
What are you doing? | Che cosa stai facendo? | 你在做什么？
What do you want? | Che cosa vuoi? | 你想要什么？
What do you think? | Che cosa pensi? | 你觉得怎么样？
Where are you going? | Dove vai? | 你去哪里？
Where were you? | Dove eri? | 你刚才在哪里？
Are you ready? | Sei pronto? | 你准备好了吗？
I am ready. | Sono pronto. | 我准备好了。
I am coming. | Arrivo. | 我来了。
I am back. | Sono tornato. | 我回来了。
I am at home. | Sono a casa. | 我在家。
Nobody is at home. | Non c'è nessuno a casa. | 家里没有人。
Somebody is at the door. | C'è qualcuno alla porta. | 门口有人。
The door is open. | La porta è aperta. | 门开着。
The window is closed. | La finestra è chiusa. | 窗户关着。
I have a headache. | Ho mal di testa. | 我头疼。
I have a stomach ache. | Ho mal di pancia. | 我肚子疼。
I have a toothache. | Ho mal di denti. | 我牙疼。
I have a fever. | Ho la febbre. | 我发烧了。
I have a cold. | Ho il raffreddore. | 我感冒了。
I don't feel well. | Non mi sento bene. | 我不舒服。
I feel better today. | Oggi mi sento meglio. | 我今天好多了。
I need a doctor. | Ho bisogno di un medico. | 我需要看医生。
Where does it hurt? | Dove ti fa male? | 你哪里疼？
My foot hurts. | Mi fa male il piede. | 我脚疼。
My leg hurts. | Mi fa male la gamba. | 我腿疼。
My hand hurts. | Mi fa male la mano. | 我手疼。
Take this medicine twice a day. | Prendi questa medicina due volte al giorno. | 这种药一天吃两次。
Drink a lot of water. | Bevi molta acqua. | 多喝水。
You must rest. | Devi riposarti. | 你必须休息。
Call an ambulance! | Chiama un'ambulanza! | 快叫救护车！
Call the police! | Chiama la polizia! | 快报警！
My family is big. | La mia famiglia è grande. | 我家人很多。
This is my family. | Questa è la mia famiglia. | 这是我的家人。
This is my brother. | Questo è mio fratello. | 这是我哥哥。
This is my sister. | Questa è mia sorella. | 这是我妹妹。
This is my father. | Questo è mio padre. | 这是我爸爸。
This is my mother. | Questa è mia madre. | 这是我妈妈。
This is my friend. | Questo è il mio amico. | 这是我的朋友。
This is my room. | Questa è la mia camera. | 这是我的房间。
This is my book. | Questo è il mio libro. | 这是我的书。
I have two brothers. | Ho due fratelli. | 我有两个哥哥。
I have one sister. | Ho una sorella. | 我有一个妹妹。
I am an only child. | Sono figlio unico. | 我是独生子。
We are good friends. | Siamo buoni amici. | 我们是好朋友。
We live together. | Viviamo insieme. | 我们住在一起。
They are married. | Sono sposati. | 他们结婚了。
The baby is sleeping. | Il neonato sta dormendo. | 宝宝在睡觉。
The cat is sleeping on the sofa. | Il gatto dorme sul divano. | 猫在沙发上睡觉。
The dog is running in the park. | Il cane corre nel parco. | 狗在公园里跑。
The birds are singing. | Gli uccelli cantano. | 鸟儿在唱歌。
The flowers are beautiful. | I fiori sono belli. | 花很漂亮。
The sky is blue. | Il cielo è azzurro. | 天空是蓝色的。
The water is cold. | L'acqua è fredda. | 水很凉。
The room is dark. | La stanza è buia. | 房间很暗。
Turn on the light. | Accendi la luce. | 把灯打开。
What is your favourite colour? | Qual è il tuo colore preferito? | 你最喜欢什么颜色？
My favourite colour is red. | Il mio colore preferito è il rosso. | 我最喜欢红色。
What is your favourite book? | Qual è il tuo libro preferito? | 你最喜欢哪本书？
What is your favourite film? | Qual è il tuo film preferito? | 你最喜欢哪部电影？
What do you do in your free time? | Che cosa fai nel tempo libero? | 你空闲的时候做什么？
I like to read before I sleep. | Mi piace leggere prima di dormire. | 我喜欢睡觉前看书。
Our team has won. | La nostra squadra ha vinto. | 我们队赢了。
Their team has lost. | La loro squadra ha perso. | 他们队输了。
The match was exciting. | La partita era emozionante. | 比赛很精彩。
The film was very good. | Il film era molto bello. | 电影很好看。
The concert was wonderful. | Il concerto era meraviglioso. | 音乐会很精彩。
The museum is free on Sundays. | Il museo è gratuito la domenica. | 博物馆每个星期天免费。
Italy is a beautiful country. | L'Italia è un bel paese. | 意大利是一个美丽的国家。
China is a big country. | La Cina è un grande paese. | 中国是一个很大的国家。
Rome is the capital of Italy. | Roma è la capitale d'Italia. | 罗马是意大利的首都。
Beijing is the capital of China. | Pechino è la capitale della Cina. | 北京是中国的首都。
Paris is the capital of France. | Parigi è la capitale della Francia. | 巴黎是法国的首都。
A year has twelve months. | Un anno ha dodici mesi. | 一年有十二个月。
A week has seven days. | Una settimana ha sette giorni. | 一个星期有七天。
Spring has arrived. | È arrivata la primavera. | 春天来了。
The leaves are falling. | Le foglie stanno cadendo. | 树叶正在落下来。
I was born in Rome. | Sono nato a Roma. | 我出生在罗马。
I was born in Beijing. | Sono nato a Pechino. | 我出生在北京。
I grew up in Italy. | Sono cresciuto in Italia. | 我在意大利长大。
I have been studying Chinese for two years. | Studio il cinese da due anni. | 我学中文学了两年了。
I want to learn Italian. | Voglio imparare l'italiano. | 我想学意大利语。
Chinese is not difficult. | Il cinese non è difficile. | 中文不难。
I write to my grandmother every month. | Scrivo a mia nonna ogni mese. | 我每个月给我奶奶写信。
I have to go now. | Adesso devo andare. | 我得走了。
I will be back soon. | Torno presto. | 我很快就回来。
I can't sleep. | Non riesco a dormire. | 我睡不着。
I slept well. | Ho dormito bene. | 我睡得很好。
I got up late today. | Oggi mi sono alzato tardi. | 我今天起晚了。
I missed the bus. | Ho perso l'autobus. | 我没赶上公共汽车。
I missed the train. | Ho perso il treno. | 我没赶上火车。
I left my umbrella on the bus. | Ho lasciato l'ombrello sull'autobus. | 我把雨伞忘在公共汽车上了。
I like this city very much. | Questa città mi piace molto. | 我非常喜欢这座城市。
Time flies. | Il tempo vola. | 时间过得真快。
Everything is fine. | Va tutto bene. | 一切都好。
That is enough. | Basta così. | 够了。
Nothing special. | Niente di speciale. | 没什么特别的。
""")
