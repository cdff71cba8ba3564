// The compiled parts of Boost.Asio and Boost.Beast, once.
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Weverything"
#endif
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
#ifdef __clang__
#pragma clang diagnostic pop
#endif
