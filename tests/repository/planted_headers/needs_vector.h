// needs_vector.h: a header that forgets an include, so that the check of headers can prove itself.
#pragma once

std::vector<int> planted();
