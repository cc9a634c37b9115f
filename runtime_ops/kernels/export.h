/* EE_API marks functions that the libraries export. */
#ifndef EDGE_EMBED_KERNELS_EXPORT_H_
#define EDGE_EMBED_KERNELS_EXPORT_H_

#if !defined(_WIN32)
#define EE_API __attribute__((visibility("default")))
#elif defined(EDGE_EMBED_VERSION) /* only while a library is compiled */
#define EE_API __declspec(dllexport)
#else
#define EE_API
#endif

#endif /* EDGE_EMBED_KERNELS_EXPORT_H_ */
