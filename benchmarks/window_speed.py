"""How long an event waits for Qt's thread while a model is tuned and compared in the real window.

    QT_QPA_PLATFORM=offscreen python benchmarks/window_speed.py MODEL [--verdict] [--no-sandbox]

What is measured and how: ``window_watch.py``, which the compile process must not load: it is
started anew from this file.
"""

if __name__ == "__main__":
    from window_watch import main

    main()
