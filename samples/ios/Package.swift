// swift-tools-version:5.7
import PackageDescription

let package = Package(
  name: "NextWord",
  platforms: [.iOS("15.1")],
  products: [.library(name: "NextWord", targets: ["NextWord"])],
  dependencies: [
    .package(url: "https://github.com/microsoft/onnxruntime-swift-package-manager", from: "1.20.0")
  ],
  targets: [
    .target(
      name: "NextWord",
      dependencies: [.product(name: "onnxruntime", package: "onnxruntime-swift-package-manager")],
      resources: [.copy("bundle")]
    )
  ]
)
