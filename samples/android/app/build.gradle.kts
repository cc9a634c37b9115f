import javax.inject.Inject
import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "edgeembed.nextword"
    compileSdk = 35

    defaultConfig {
        applicationId = "edgeembed.nextword"
        minSdk = 24
        targetSdk = 35
        versionCode = 1
        versionName = "1.0"
        // Those of the operator library, which is absent on other ABIs.
        ndk { abiFilters += listOf("arm64-v8a", "armeabi-v7a", "x86_64") }
    }

    buildTypes {
        release {
            isMinifyEnabled = false // the rules below are for an app that sets it to true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"), "proguard-rules.pro")
        }
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
}

kotlin {
    compilerOptions { jvmTarget.set(JvmTarget.JVM_17) }
}

dependencies {
    implementation("com.microsoft.onnxruntime:onnxruntime-android:1.22.0")
    // The operator library of `edge-embed package --platform android`, if it is there.
    implementation(fileTree("libs") { include("*.aar") })
}

/** Copies the bundle of the demo to the assets. */
abstract class CopyBundle : DefaultTask() {
    @get:InputDirectory
    @get:PathSensitive(PathSensitivity.RELATIVE)
    abstract val bundle: DirectoryProperty

    @get:OutputDirectory
    abstract val assets: DirectoryProperty

    @get:Inject
    abstract val files: FileSystemOperations

    @TaskAction
    fun copy() {
        files.sync {
            from(bundle)
            into(assets.dir("bundle"))
        }
    }
}

androidComponents {
    onVariants { variant ->
        val copyBundle = tasks.register<CopyBundle>("${variant.name}CopyBundle") {
            bundle.set(rootProject.layout.projectDirectory.dir("../../build/next_word/bundle"))
        }
        variant.sources.assets?.addGeneratedSourceDirectory(copyBundle, CopyBundle::assets)
    }
}
