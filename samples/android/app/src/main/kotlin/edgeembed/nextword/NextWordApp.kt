package edgeembed.nextword

import ai.onnxruntime.OrtEnvironment
import android.app.Application
import java.io.File
import java.util.concurrent.Callable
import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors
import java.util.concurrent.FutureTask

private const val BUNDLE = "bundle"

/** The process. It opens the model once, which outlives rotations of the screen. */
class NextWordApp : Application() {
    /** The thread of the model: it opens it, then it answers. */
    val worker: ExecutorService = Executors.newSingleThreadExecutor()
    val model = FutureTask(Callable { NextWord(installed().open()) })

    override fun onCreate() {
        super.onCreate()
        worker.execute(model)
    }

    // Not backed up: another phone shall check its own copy.
    private fun installed() = Installed(
        File(noBackupFilesDir, BUNDLE), OrtEnvironment.getEnvironment(), OperatorLibrary.find()
    ) { name -> assets.open("$BUNDLE/$name") }
}
