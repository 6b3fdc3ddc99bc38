"""Predicates of actions, with tags that restrict their combinations.

Tags: `adult` and `young` restrict the subject; `m`, `n` and `e` the part of the day (morning, noon or
afternoon, evening); `moment` excludes the progressive; `alone` excludes company; `P:x` names a fit place.
"""

from __future__ import annotations

from grammar.model import Triple, predicates, triples

ACTIONS = predicates("""
read | leggere | 看书 | P:home P:garden P:library P:park alone
read the newspaper | leggere il giornale | 看 报纸 | adult P:home P:garden alone
watch television | guardare la televisione | 看 电视 | P:home
listen to music | ascoltare la musica | 听 音乐 | P:home P:room
listen to the radio | ascoltare la radio | 听 收音机 | adult P:kitchen P:home
play football | giocare a calcio | 踢 足球 | P:park P:school
play tennis | giocare a tennis | 打 网球 |
play basketball | giocare a pallacanestro | 打 篮球 | P:school P:park
play cards | giocare a carte | 打 牌 | P:home
play chess | giocare a scacchi | 下 棋 | P:home P:park
play the piano | suonare il pianoforte | 弹 钢琴 | P:home
play the guitar | suonare la chitarra | 弹 吉他 | P:room P:garden
sing | cantare | 唱歌 | P:room P:garden
dance | ballare | 跳舞 | P:home
swim | nuotare | 游泳 | P:pool
run | correre | 跑步 | P:park
go for a walk | fare una passeggiata | 散步 | moment P:park
cook | cucinare | 做饭 | P:kitchen P:home
make dinner | preparare la cena | 做 晚饭 | e P:kitchen
have breakfast | fare colazione | 吃 早饭 | m P:home P:kitchen
have lunch | pranzare | 吃 午饭 | n P:home P:restaurant P:office
have dinner | cenare | 吃 晚饭 | e P:home P:restaurant
drink coffee | bere il caffè | 喝 咖啡 | adult P:office P:kitchen
drink tea | bere il tè | 喝 茶 | P:garden P:home
eat fish | mangiare il pesce | 吃 鱼 | n e P:restaurant P:home
eat meat | mangiare la carne | 吃 肉 | n e P:restaurant P:home
eat fruit | mangiare la frutta | 吃 水果 | P:home
eat rice | mangiare il riso | 吃 米饭 | n e P:home
clean the house | pulire la casa | 打扫 房子 |
clean the kitchen | pulire la cucina | 打扫 厨房 |
wash the dishes | lavare i piatti | 洗 碗 | P:kitchen
wash the car | lavare la macchina | 洗 车 | adult
do homework | fare i compiti | 做 作业 | young P:home P:library P:room
do the shopping | fare la spesa | 买 菜 | adult
study | studiare | 学习 | young P:library P:home P:room
study English | studiare l'inglese | 学习 英语 | P:school P:library P:home
study Chinese | studiare il cinese | 学习 中文 | P:school P:library P:home
work | lavorare | 工作 | adult P:office P:home
rest | riposarsi | 休息 | P:home P:room alone
get up early | alzarsi presto | 早起 | moment m alone
go to school | andare a scuola | 上学 | moment young m
go to work | andare al lavoro | 上班 | moment adult m alone
go to the gym | andare in palestra | 去 健身房 | moment adult
go to the market | andare al mercato | 去 市场 | moment adult
go to the supermarket | andare al supermercato | 去 超市 | moment
go to the cinema | andare al cinema | 去 电影院 | moment
go to the park | andare al parco | 去 公园 | moment
go to the library | andare in biblioteca | 去 图书馆 | moment
go to the beach | andare in spiaggia | 去 海边 | moment
go to the theatre | andare a teatro | 去 剧院 | moment
go to the swimming pool | andare in piscina | 去 游泳池 | moment
take the bus | prendere l'autobus | 坐 公共汽车 | moment
take the train | prendere il treno | 坐 火车 | moment
take the underground | prendere la metropolitana | 坐 地铁 | moment
take photos | fare fotografie | 拍照 | P:park P:garden
paint | dipingere | 画画 | P:garden P:room
walk the dog | portare fuori il cane | 遛 狗 | moment
water the flowers | annaffiare i fiori | 浇 花 | adult alone
use the computer | usare il computer | 用 电脑 | P:office P:room alone
""")
ONGOING_ONLY = predicates("""
sleep | dormire | 睡觉
laugh | ridere | 笑
cry | piangere | 哭
wait for the bus | aspettare l'autobus | 等 公共汽车
talk to a friend | parlare con un amico | 和朋友聊天
""")
OUTINGS = predicates("""
go to the museum | andare al museo | 去 博物馆
go to the doctor | andare dal medico | 去看 医生
go to the bank | andare in banca | 去 银行
go to the mountains | andare in montagna | 去 山上
visit the castle | visitare il castello | 参观 城堡
visit the museum | visitare il museo | 参观 博物馆
go to Rome | andare a Roma | 去 罗马
go to Beijing | andare a Pechino | 去 北京
go to Milan | andare a Milano | 去 米兰
""")
SKILLS = predicates("""
swim | nuotare | 游泳
drive | guidare | 开车
cook | cucinare | 做饭
dance | ballare | 跳舞
sing | cantare | 唱歌
ski | sciare | 滑雪
ride a bicycle | andare in bicicletta | 骑 自行车
speak English | parlare inglese | 说 英语
speak Italian | parlare italiano | 说 意大利语
speak Chinese | parlare cinese | 说 中文
speak French | parlare francese | 说 法语
speak Spanish | parlare spagnolo | 说 西班牙语
play the piano | suonare il pianoforte | 弹 钢琴
play the guitar | suonare la chitarra | 弹 吉他
play the violin | suonare il violino | 拉 小提琴
play chess | giocare a scacchi | 下 棋
play tennis | giocare a tennis | 打 网球
write in Chinese | scrivere in cinese | 用 中文写字
use this computer | usare questo computer | 用 这台电脑
""")
PLACES = {
    "home": Triple("at home", "a casa", "家里"),
    "garden": Triple("in the garden", "in giardino", "花园里"),
    "library": Triple("in the library", "in biblioteca", "图书馆"),
    "park": Triple("in the park", "nel parco", "公园"),
    "kitchen": Triple("in the kitchen", "in cucina", "厨房"),
    "room": Triple("in the bedroom", "in camera da letto", "卧室"),
    "school": Triple("at school", "a scuola", "学校"),
    "office": Triple("in the office", "in ufficio", "办公室"),
    "restaurant": Triple("at the restaurant", "al ristorante", "餐厅"),
    "pool": Triple("in the swimming pool", "in piscina", "游泳池"),
}
CITIES = triples("""
Rome | Roma | 罗马
Milan | Milano | 米兰
Florence | Firenze | 佛罗伦萨
Venice | Venezia | 威尼斯
Naples | Napoli | 那不勒斯
Turin | Torino | 都灵
London | Londra | 伦敦
Paris | Parigi | 巴黎
Beijing | Pechino | 北京
Shanghai | Shanghai | 上海
""")
COUNTRIES = triples("""
Italy | Italia | 意大利
China | Cina | 中国
France | Francia | 法国
Germany | Germania | 德国
England | Inghilterra | 英国
Spain | Spagna | 西班牙
Japan | Giappone | 日本
""")
JOBS = triples("""
a doctor | medico | 医生
a teacher | insegnante | 老师
an engineer | ingegnere | 工程师
a lawyer | avvocato | 律师
a journalist | giornalista | 记者
a cook | cuoco | 厨师
a student | studente | 学生
a nurse | infermiere | 护士
a writer | scrittore | 作家
a musician | musicista | 音乐家
a worker | operaio | 工人
a police officer | poliziotto | 警察
""")
FEMININE_JOBS = {
    "avvocato": "avvocata",
    "cuoco": "cuoca",
    "studente": "studentessa",
    "infermiere": "infermiera",
    "scrittore": "scrittrice",
    "operaio": "operaia",
    "poliziotto": "poliziotta",
}
