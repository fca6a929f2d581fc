/* Classes against predictions, as `trainctl show` prints them. */
#include "trainerd/ctl/confusion.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* What is printed of a result. owns  the caller frees it */
static char *printed_of(json_t *result)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    cr_assert_not_null(file);
    confusion_print(result, file);
    fclose(file);
    json_decref(result);
    return text;
}

static json_t *result_of(const char *names)
{
    json_t *result = json_loads("{\"confusion\": {\"split\": \"test\", \"support\": [15, 13], \"predicted\": [13, "
                                "15], \"recall\": [0.8667, 1.0],"
                                " \"precision\": [1.0, null], \"matrix\": [[13, 2], [0, 13]]}, \"dataset\": {}}",
                                0, NULL);
    json_object_set_new(json_object_get(result, "dataset"), "class_names", json_loads(names, JSON_DECODE_ANY, NULL));
    return result;
}

Test(confusion, has_the_names_of_the_classes_and_their_numbers_without)
{
    char *text = printed_of(result_of("[\"Mr. Hi\", \"Offi\\u001bcer\"]"));
    cr_assert_str_eq(text,
                     "\nconfusion matrix of the test nodes: a row for each class, a column for each prediction\n"
                     "class        Mr. Hi  Offi\\x1bcer  nodes    recall  precision\n"
                     "Mr. Hi           13            2     15   86.67 %   100.00 %\n"
                     "Offi\\x1bcer       0           13     13  100.00 %          -\n");
    free(text);
    text = printed_of(result_of("null"));
    cr_assert_not_null(strstr(text, "class   0   1  nodes    recall  precision\n0      13   2     15"), "%s", text);
    free(text);
}

Test(confusion, of_many_classes_is_a_line_for_each_of_the_first)
{
    json_t *result = result_of("null"), *support = json_array();
    for (int k = 0; k < 45; k++) {
        json_array_append_new(support, json_integer(k));
    }
    json_object_set_new(json_object_get(result, "confusion"), "support", support);
    char *text = printed_of(result);
    cr_assert_not_null(strstr(text, "\nclasses of the test nodes\nclass  nodes    recall  precision\n"), "%s", text);
    cr_assert_not_null(strstr(text, "\n39        39         -          -\nand 5 more classes, in result.json\n"),
                       "%s", text);
    free(text);
}

Test(confusion, of_a_result_without_one_is_nothing)
{
    char *text = printed_of(json_pack("{s:n}", "confusion"));
    cr_assert_str_eq(text, "");
    free(text);
    text = printed_of(json_null());
    cr_assert_str_eq(text, "");
    free(text);
}
