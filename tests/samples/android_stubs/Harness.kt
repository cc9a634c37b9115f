import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.Process
import android.content.Context
import android.view.View
import android.widget.Button
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.TextView
import edgeembed.nextword.Installed
import edgeembed.nextword.MainActivity
import edgeembed.nextword.ModelBundle
import edgeembed.nextword.NextWord
import edgeembed.nextword.NextWordApp
import edgeembed.nextword.OperatorLibrary
import edgeembed.nextword.R
import edgeembed.nextword.TOKEN
import java.io.File
import java.util.concurrent.Callable
import org.json.JSONArray
import org.json.JSONObject

/** Calls the app for the tests: one question and one answer a line, as JSON. */
fun main() {
    while (true) {
        val question = JSONObject(readLine() ?: break)
        val answer = JSONObject()
        val open = Process.open()
        try {
            reply(question, answer)
        } catch (error: Throwable) {
            answer.put("error", error.message ?: error.toString())
        }
        println(answer.put("open", Process.open() - open).put("registered", Process.registered))
    }
}

private fun reply(question: JSONObject, answer: JSONObject) {
    System.setProperty("onnxruntime.version", question.getString("onnxruntime"))
    when (val call = question.getString("call")) {
        "open" -> report(open(question), question, answer)
        "install" -> {
            val read = JSONArray()
            answer.put("read", read)
            report(install(question, read), question, answer)
        }
        "screens" -> answer.put("screens", screens(question))
        "library" -> answer.put("version", OperatorLibrary.find()?.version)
        "token" -> answer.put("token", TOKEN)
        else -> throw IllegalArgumentException(call)
    }
}

private fun report(bundle: ModelBundle, question: JSONObject, answer: JSONObject) = bundle.use {
    answer.put("notice", it.notice)
    question.optJSONArray("encode")?.let { texts ->
        val model = NextWord(it)
        answer.put("ids", JSONArray(texts.list().map { text -> JSONArray(model.encode(text).toList()) }))
    }
    question.optJSONArray("suggest")?.let { texts ->
        val model = NextWord(it)
        answer.put("suggestions", JSONArray(texts.list().map { text -> suggestions(model, text) }))
    }
}

private fun suggestions(model: NextWord, text: String) =
    JSONArray(model.suggest(text).map { JSONArray(listOf(it.word, it.probability)) })

private fun JSONArray.list() = List(length()) { getString(it) }

private val environment = OrtEnvironment.getEnvironment()

private fun open(question: JSONObject) =
    ModelBundle.open(File(question.getString("folder")), environment, library(question), check = true)

private fun install(question: JSONObject, read: JSONArray): ModelBundle {
    val assets = File(question.getString("assets"))
    return Installed(File(question.getString("folder")), environment, library(question)) { name ->
        read.put(name)
        File(assets, name).inputStream()
    }.open()
}

/** The library that the app finds, or one of another version, which must not be called. */
private fun library(question: JSONObject): OperatorLibrary? = when (val version = question.optString("library")) {
    "" -> null
    "found" -> OperatorLibrary.find()
    else -> OperatorLibrary(version) { throw IllegalStateException("a library of version $version was called") }
}

/** What the screen shows at the start, after a text was typed, and after a tap on the first suggestion. */
private fun screens(question: JSONObject): JSONArray {
    Context.assets = File(question.getString("assets"))
    Context.folder = File(question.getString("folder"))
    val app = NextWordApp()
    app.onCreate()
    val (text, suggestions, state) = Triple(EditText(), LinearLayout(), TextView())
    val activity = MainActivity()
    activity.start(app, mapOf<Int, View>(R.id.text to text, R.id.suggestions to suggestions, R.id.state to state))
    val buttons = { List(suggestions.childCount) { suggestions.getChildAt(it) as Button } }
    val shown = {
        app.worker.submit(Callable { }).get()
        val words = JSONArray(buttons().map { it.text })
        JSONObject().put("text", text.text.toString()).put("suggestions", words).put("state", state.text)
    }
    val screens = JSONArray().put(shown())
    text.append(question.getString("type"))
    screens.put(shown())
    buttons().firstOrNull()?.performClick()
    screens.put(shown())
    activity.destroy()
    app.worker.shutdown()
    return screens
}
