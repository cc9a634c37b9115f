package edgeembed.nextword

import android.app.Activity
import android.os.Bundle
import android.os.SystemClock
import android.text.Editable
import android.text.TextWatcher
import android.view.ViewGroup.LayoutParams.WRAP_CONTENT
import android.widget.Button
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.TextView
import java.util.concurrent.ExecutionException
import kotlin.math.roundToInt

/** Shows the likeliest next words while you type. */
class MainActivity : Activity(), TextWatcher {
    private lateinit var text: EditText
    private lateinit var suggestions: LinearLayout
    private lateinit var state: TextView

    @Volatile
    private var asked = 0

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.activity_main)
        text = findViewById(R.id.text)
        suggestions = findViewById(R.id.suggestions)
        state = findViewById(R.id.state)
        text.addTextChangedListener(this)
        ask()
    }

    override fun onDestroy() {
        ++asked
        super.onDestroy()
    }

    override fun beforeTextChanged(text: CharSequence?, start: Int, count: Int, after: Int) = Unit

    override fun onTextChanged(text: CharSequence?, start: Int, before: Int, count: Int) = Unit

    override fun afterTextChanged(text: Editable?) = ask()

    private fun ask() {
        val question = ++asked
        val typed = text.text.toString()
        val app = application as NextWordApp
        app.worker.execute {
            if (question == asked) {
                val answer = runCatching { suggest(app.model.get(), typed) }
                runOnUiThread { if (question == asked) answer.fold(::show, ::showError) }
            }
        }
    }

    private class Answer(val suggestions: List<Suggestion>, val milliseconds: Long, val notice: String?)

    private fun suggest(model: NextWord, typed: String): Answer {
        val begin = SystemClock.elapsedRealtime()
        val found = model.suggest(typed)
        return Answer(found, SystemClock.elapsedRealtime() - begin, model.notice)
    }

    private fun show(answer: Answer) {
        suggestions.removeAllViews()
        answer.suggestions.forEach { suggestions.addView(button(it), LinearLayout.LayoutParams(0, WRAP_CONTENT, 1f)) }
        state.text = listOfNotNull(getString(R.string.computed, answer.milliseconds), answer.notice).joinToString("\n")
    }

    private fun showError(error: Throwable) {
        suggestions.removeAllViews()
        val cause = (error as? ExecutionException)?.cause ?: error // of the thread that opened the model
        state.text = cause.message ?: cause.toString()
    }

    private fun button(suggestion: Suggestion) = Button(this).apply {
        isAllCaps = false
        val percent = (100 * suggestion.probability).roundToInt()
        text = getString(R.string.suggestion, suggestion.word, percent)
        setOnClickListener { add(suggestion.word) }
    }

    private fun add(word: String) {
        val gap = if (text.text.lastOrNull()?.isWhitespace() == false) " " else ""
        text.append(gap + word)
        text.setSelection(text.length())
    }
}
