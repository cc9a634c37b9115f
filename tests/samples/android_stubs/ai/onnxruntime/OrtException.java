package ai.onnxruntime;

public class OrtException extends Exception {
  OrtException(String message) {
    super(message);
  }
}
