import SwiftUI

@main
struct NextWordApp: App {
  var body: some Scene {
    WindowGroup {
      ContentView()
    }
  }
}
